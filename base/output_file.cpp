#include "base/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "base/system_error.h"

namespace braid {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;

Error cannot_write(const std::string& path, int problem) {
  return error("{} cannot be written: {}", path, cause_and_cure(problem));
}

// A descriptor that others share may have been made non-blocking by them.
void wait_for_room(int fd) {
  pollfd room{fd, POLLOUT, 0};
  (void)::poll(&room, 1, -1);
}

}  // namespace

HeldWriteSignals::HeldWriteSignals(bool pipes) {
  sigset_t pending, wanted;
  sigpending(&pending);
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGXFSZ);
  if (pipes) sigaddset(&wanted, SIGPIPE);
  held_ = wanted;
  for (const int signal : {SIGXFSZ, SIGPIPE}) {
    if (sigismember(&pending, signal) == 1) sigdelset(&held_, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
}

HeldWriteSignals::~HeldWriteSignals() {
  const int number = errno;
  const timespec at_once{};
  while (sigtimedwait(&held_, nullptr, &at_once) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = number;
}

int write_all(int fd, std::string_view bytes, bool pipes, std::size_t* written) {
  const HeldWriteSignals held(pipes);
  std::size_t done = 0;
  int problem = 0;
  while (done < bytes.size() && problem == 0) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (n == 0)
      problem = ENOSPC;  // the device takes nothing more, and does not say why
    else if (errno == EAGAIN)
      wait_for_room(fd);
    else if (errno != EINTR)
      problem = errno;
  }
  if (written != nullptr) *written = done;
  return problem;
}

Result<OutputFile> OutputFile::create(const std::string& path, mode_t permissions, Existing existing) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (existing == Existing::kEmptied ? O_TRUNC : 0);
  const int fd = ::open(path.c_str(), flags, permissions);
  if (fd < 0) return cannot_write(path, errno);
  return OutputFile(path, fd, true);
}

Result<OutputFile> OutputFile::standard_output() {
  const int fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return cannot_write("standard output", errno);
  return OutputFile("standard output", fd, false);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      is_own_(other.is_own_),
      buffer_(std::move(other.buffer_)),
      problem_(other.problem_) {}

OutputFile::~OutputFile() {
  (void)close();
}

Result<void> OutputFile::outcome() const {
  if (failed()) return cannot_write(path_, problem_);
  return {};
}

Result<void> OutputFile::append(std::string_view text) {
  if (failed()) return outcome();
  buffer_ += text;
  return buffer_.size() < kBufferBytes ? Result<void>() : flush();
}

Result<void> OutputFile::replace(std::string_view text) {
  if (failed()) return outcome();
  buffer_.clear();
  if (is_own_) {
    (void)::lseek(fd_, 0, SEEK_SET);
    (void)!::ftruncate(fd_, 0);  // a pipe has neither a position nor a length
  }
  problem_ = write_all(fd_, text);
  return outcome();
}

Result<void> OutputFile::flush() {
  if (!failed() && fd_ >= 0) problem_ = write_all(fd_, buffer_);
  buffer_.clear();
  return outcome();
}

Result<void> OutputFile::close() {
  if (fd_ < 0) return outcome();
  (void)flush();
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR && !failed()) problem_ = errno;
  return outcome();
}

}  // namespace braid
