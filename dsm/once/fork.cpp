#include "dsm/once/fork.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/output_file.h"
#include "base/system_error.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"

// The C library's list of open streams.
extern "C" FILE* _IO_list_all;

namespace braid::dsm::once {

namespace {

constinit std::array<FileIdentity, 3> original_streams{};

void unbuffer(FILE* stream) {
  (void)::setvbuf(stream, nullptr, _IONBF, 0);
}

void keep_input(int file, std::string_view bytes) {
  if (const int problem = write_all(file, bytes); problem != 0)
    fail("cannot keep the rest of standard input for the clusters: {}", cause_and_cure(problem).c_str());
}

// What was read ahead of a pipe whose writers have gone, and what it still has, becomes a file in memory. A pipe that may get more
// stays as it is: nothing can be put back into it.
void put_rest_of_input_into_file() {
  constexpr int kPatience_ms = 100;  // for writers that are about to end
  struct stat status {};
  pollfd pipe{STDIN_FILENO, 0, 0};
  if (stdin->_IO_read_ptr == stdin->_IO_read_end || stdin->_fileno != STDIN_FILENO ||
      ::fstat(STDIN_FILENO, &status) != 0 || !S_ISFIFO(status.st_mode) ||
      ::poll(&pipe, 1, kPatience_ms) != 1 || (pipe.revents & POLLHUP) == 0)
    return;
  const int file = ::memfd_create("braid-input", MFD_CLOEXEC);
  if (file < 0) return;
  keep_input(file, {stdin->_IO_read_ptr, stdin->_IO_read_end});
  std::array<char, 4096> piece;
  ssize_t n;
  while ((n = ::read(STDIN_FILENO, piece.data(), piece.size())) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) keep_input(file, {piece.data(), static_cast<std::size_t>(n)});
  }
  (void)::lseek(file, 0, SEEK_SET);
  const bool original = is_original(STDIN_FILENO);
  ::__fpurge(stdin);
  ::dup2(file, STDIN_FILENO);
  ::close(file);
  if (original) original_streams[STDIN_FILENO] = identity(STDIN_FILENO);
}

// All open ones with a descriptor, but for standard output and error. The process has one thread.
void for_each_stream(void (*action)(FILE*)) {
  for (FILE* stream = _IO_list_all; stream != nullptr; stream = stream->_chain) {
    if (stream->_fileno >= 0 && stream != stdout && stream != stderr) action(stream);
  }
}

}  // namespace

FileIdentity identity(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

void check_first_start() {
  static bool called = false;
  check_not_joined();
  if (called) fail("start_clusters() was called twice");
  called = true;
}

void check_single_thread() {
#if !defined(__SANITIZE_THREAD__)
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return;
  unsigned threads = 0;
  while (const dirent* const entry = ::readdir(tasks)) {
    if (entry->d_name[0] != '.') ++threads;
  }
  ::closedir(tasks);
  if (threads > 1)
    fail(
        "the program has {} threads when it starts the other clusters: they get copies of its process, in which only "
        "one thread goes on; start threads later",
        threads);
#endif
}

// The process in between ends at once, which makes the copy an orphan.
pid_t fork_orphan(pid_t group) {
  int report[2];
  if (::pipe(report) != 0) fail("cannot make a pipe: {}", cause_and_cure(errno).c_str());
  const pid_t between = ::fork();
  if (between < 0) fail("cannot clone the program for another cluster: {}", cause_and_cure(errno).c_str());
  if (between == 0) {
    ::close(report[0]);
    if (::fork() != 0) ::_exit(0);
    if (group != 0) (void)::setpgid(0, group);
    const pid_t self = ::getpid();
    [[maybe_unused]] const ssize_t written = ::write(report[1], &self, sizeof self);
    ::close(report[1]);
    return 0;
  }
  ::close(report[1]);
  pid_t clone = -1;
  ssize_t n;
  while ((n = ::read(report[0], &clone, sizeof clone)) < 0 && errno == EINTR) {
  }
  ::close(report[0]);
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (n != sizeof clone) fail("cannot clone the program for another cluster");
  return clone;
}

void note_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) original_streams[static_cast<std::size_t>(fd)] = identity(fd);
}

bool is_original(int fd) {
  return identity(fd) == original_streams[static_cast<std::size_t>(fd)];
}

void stop_reading_ahead() {
  put_rest_of_input_into_file();
  for_each_stream([](FILE* stream) {
    if (stream != stdin && ::__fwriting(stream) != 0) return unbuffer(stream);  // nothing waits to be written
    (void)::fflush(stream);  // goes back in a file to what the program has read
    if (stream->_IO_read_ptr == stream->_IO_read_end) unbuffer(stream);
  });
}

void forget_what_is_read() {
  for_each_stream([](FILE* stream) {
    if (stream->_IO_read_ptr != stream->_IO_read_end) ::__fpurge(stream);
    unbuffer(stream);
  });
}

}  // namespace braid::dsm::once
