#include "tools/braid/run/input_relay.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/system_error.h"
#include "tools/braid/process/pipe.h"

namespace braid::cli {

namespace {

constexpr const char* kOwnInput = "/proc/self/fd/0";

bool is_file() {
  struct stat status {};
  return ::fstat(0, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

InputRelay::InputRelay(InputReaders readers, unsigned clusters) : who_(readers), readers_(clusters) {}

Result<int> InputRelay::open(unsigned cluster) {
  Reader& reader = readers_[cluster];
  if (who_ == InputReaders::kNone || (who_ == InputReaders::kFirst && cluster != 0)) return -1;
  is_terminal_ = ::isatty(0) == 1;
  if (is_terminal_) return relay(reader);
  if (who_ == InputReaders::kFirst) return 0;
  if (!is_file()) return relay(reader);
  // A file that was opened for writing, too, or that this user may not open again, is copied.
  reader.theirs = Descriptor(::open(kOwnInput, O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (!reader.theirs || ::lseek(reader.theirs.get(), ::lseek(0, 0, SEEK_CUR), SEEK_SET) < 0)
    return relay(reader);
  return reader.theirs.get();
}

Result<int> InputRelay::relay(Reader& reader) {
  if (!source_) {
    if (Result<void> done = open_source(); !done) return done.error();
  }
  Result<Pipe> pipe = make_pipe();
  if (!pipe) return pipe.error();
  reader.theirs = std::move(pipe->read);
  reader.ours = std::move(pipe->write);
  ::fcntl(reader.ours.get(), F_SETFL, O_NONBLOCK);
  return reader.theirs.get();
}

// Opened anew, so that not to wait is our own affair: what was there to be read is gone when control-C, or another
// process that reads the same pipe, comes before we read it. Sockets cannot be opened.
Result<void> InputRelay::open_source() {
  source_ = Descriptor(::open(kOwnInput, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!source_) source_ = Descriptor(::fcntl(0, F_DUPFD_CLOEXEC, 3));
  if (!source_) return error("standard input: {}", cause_and_cure(errno));
  return {};
}

// Only what a reader has no more of, so that input stays where others may read it, and little is kept. In the
// background the terminal is not ours to read.
bool InputRelay::wants_to_read() const {
  if (!source_ || (is_terminal_ && ::tcgetpgrp(0) != ::getpgrp())) return false;
  return std::any_of(readers_.begin(), readers_.end(),
                     [this](const Reader& r) { return r.ours && r.position == end(); });
}

void InputRelay::watch(std::vector<pollfd>& fds) const {
  if (has_failed_) return;
  if (wants_to_read()) fds.push_back({source_.get(), POLLIN, 0});
  for (const Reader& reader : readers_) {
    if (reader.ours && reader.position < end()) fds.push_back({reader.ours.get(), POLLOUT, 0});
  }
}

Result<void> InputRelay::turn() {
  if (has_failed_) return {};
  if (wants_to_read()) read_some();
  for (Reader& reader : readers_) write_some(reader);
  forget_what_all_have();
  has_failed_ = kept_.size() > kMostKept;
  if (has_failed_) return error("{}", describe_distance());
  return {};
}

void InputRelay::read_some() {
  pollfd ready{source_.get(), POLLIN, 0};
  if (::poll(&ready, 1, 0) <= 0) return;
  char bytes[65536];
  const ssize_t n = ::read(source_.get(), bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return source_.close();
  kept_.append(bytes, static_cast<std::size_t>(n));
}

void InputRelay::write_some(Reader& reader) {
  if (!reader.ours) return;
  const std::size_t taken = reader.position - first_;
  if (taken < kept_.size()) {
    const ssize_t n = ::write(reader.ours.get(), kept_.data() + taken, kept_.size() - taken);
    if (n > 0) reader.position += static_cast<std::size_t>(n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) reader.ours.close();  // it has closed its input
  }
  if (!source_ && reader.position == end()) reader.ours.close();
}

void InputRelay::forget_what_all_have() {
  std::uint64_t all_have = end();
  for (const Reader& reader : readers_) {
    if (reader.ours) all_have = std::min(all_have, reader.position);
  }
  // In large pieces: each moves the rest.
  if (all_have != end() && all_have - first_ < kept_.size() / 2) return;
  kept_.erase(0, all_have - first_);
  first_ = all_have;
}

std::string InputRelay::describe_distance() const {
  const auto slowest =
      std::min_element(readers_.begin(), readers_.end(), [](const Reader& a, const Reader& b) {
        return std::pair(!a.ours, a.position) < std::pair(!b.ours, b.position);
      });
  return fmt::format(
      "standard input: cluster {} has left {} MiB unread that another has read, and no more is kept for --stdin all; give "
      "the input as a file (< FILE), which each cluster reads by itself",
      slowest - readers_.begin(), kMostKept >> 20);
}

}  // namespace braid::cli
