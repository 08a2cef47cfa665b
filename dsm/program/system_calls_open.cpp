// Calls of the C library for descriptors that give the kernel no memory (system_calls.h): with one that is open in another cluster
// alone they are made there, as those that move bytes; and descriptors that they make get numbers that only their cluster uses.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "dsm/program/shared_arguments.h"

#define BRAID_EACH_OPEN_CALL(X) \
  X(close)                      \
  X(lseek)                      \
  X(fsync)                      \
  X(fdatasync)                  \
  X(ftruncate)                  \
  X(fallocate)                  \
  X(flock)                      \
  X(fchmod)                     \
  X(fchown)                     \
  X(shutdown)                   \
  X(dup)                        \
  X(socket)                     \
  X(eventfd)                    \
  X(epoll_create)               \
  X(epoll_create1)              \
  X(timerfd_create)             \
  X(inotify_init)               \
  X(inotify_init1)

BRAID_EACH_OPEN_CALL(BRAID_WEAK_CALL)

namespace braid::dsm {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
BRAID_ORIGINALS(BRAID_EACH_OPEN_CALL)
#pragma GCC diagnostic pop

}  // namespace

NamesOfCalls open_calls() {
  return kNamesOfCalls;
}

}  // namespace braid::dsm

// --- The C library's names

using namespace braid::dsm;  // NOLINT

// A call of one descriptor whose arguments are numbers.
#define BRAID_CALL_OF_NUMBERS(name, type, exception, parameters, ...)                            \
  type name parameters exception {                                                               \
    return where_open(#name "()", fd, original().name(__VA_ARGS__),                              \
                      [=]() mutable -> type { return static_cast<type>(::name(__VA_ARGS__)); }); \
  }

#pragma GCC visibility push(default)
extern "C" {

BRAID_CALL_OF_NUMBERS(lseek, off_t, noexcept, (int fd, off_t offset, int from), fd, offset, from)
BRAID_CALL_OF_NUMBERS(fsync, int, , (int fd), fd)
BRAID_CALL_OF_NUMBERS(fdatasync, int, , (int fd), fd)
BRAID_CALL_OF_NUMBERS(ftruncate, int, noexcept, (int fd, off_t bytes), fd, bytes)
BRAID_CALL_OF_NUMBERS(fallocate, int, , (int fd, int mode, off_t offset, off_t bytes), fd, mode, offset,
                      bytes)
BRAID_CALL_OF_NUMBERS(flock, int, noexcept, (int fd, int operation), fd, operation)
BRAID_CALL_OF_NUMBERS(fchmod, int, noexcept, (int fd, mode_t mode), fd, mode)
BRAID_CALL_OF_NUMBERS(fchown, int, noexcept, (int fd, uid_t user, gid_t group), fd, user, group)
BRAID_CALL_OF_NUMBERS(shutdown, int, noexcept, (int fd, int how), fd, how)

int close(int fd) {
  if (when_closed != nullptr) when_closed(fd);
  return where_open("close()", fd, original().close(fd), [=] { return ::close(fd); });
}
int dup(int fd) noexcept {
  return where_open("dup()", fd, opened(original().dup(fd)), [=] { return ::dup(fd); });
}

int socket(int domain, int type, int protocol) noexcept {
  return opened(original().socket(domain, type, protocol));
}
int eventfd(unsigned value, int flags) noexcept {
  return opened(original().eventfd(value, flags));
}
int epoll_create(int size) noexcept {
  return opened(original().epoll_create(size));
}
int epoll_create1(int flags) noexcept {
  return opened(original().epoll_create1(flags));
}
int timerfd_create(int clock, int flags) noexcept {
  return opened(original().timerfd_create(clock, flags));
}
int inotify_init() noexcept {
  return opened(original().inotify_init());
}
int inotify_init1(int flags) noexcept {
  return opened(original().inotify_init1(flags));
}

// The names of programs that were compiled for large files: offsets are the same with and without.
static_assert(sizeof(off_t) == sizeof(off64_t));
off64_t lseek64(int fd, off64_t offset, int from) noexcept __attribute__((weak, alias("lseek")));
int ftruncate64(int fd, off64_t bytes) noexcept __attribute__((weak, alias("ftruncate")));
int fallocate64(int fd, int mode, off64_t offset, off64_t bytes) __attribute__((weak, alias("fallocate")));

}  // extern "C"
#pragma GCC visibility pop
