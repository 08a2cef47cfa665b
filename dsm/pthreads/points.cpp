// Calls of the system that are cancellation points, and may wait there (cancellation.h). Those that sleep are in sleeps.cpp.
#undef _FORTIFY_SOURCE  // its inline functions would have the names that are used here

#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstddef>

#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/wrapped.h"

using braid::dsm::pthreads::at_point;

extern "C" {
ssize_t __read_chk(int fd, void* buffer, std::size_t bytes, std::size_t room);
ssize_t __pread_chk(int fd, void* buffer, std::size_t bytes, off_t offset, std::size_t room);
ssize_t __pread64_chk(int fd, void* buffer, std::size_t bytes, off_t offset, std::size_t room);
ssize_t __recv_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags, sockaddr* from,
                       socklen_t* from_bytes);
int __poll_chk(pollfd* fds, nfds_t count, int timeout, std::size_t room);
int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask, std::size_t room);
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
}

#define POINT(result, name, parameters, arguments)     \
  result WRAPPED(name) parameters {                    \
    return at_point([&] { return ::name arguments; }); \
  }

extern "C" {

POINT(ssize_t, read, (int fd, void* to, std::size_t bytes), (fd, to, bytes))
POINT(ssize_t, __read_chk, (int fd, void* to, std::size_t bytes, std::size_t room), (fd, to, bytes, room))
POINT(ssize_t, pread, (int fd, void* to, std::size_t bytes, off_t at), (fd, to, bytes, at))
POINT(ssize_t, pread64, (int fd, void* to, std::size_t bytes, off64_t at), (fd, to, bytes, at))
POINT(ssize_t, __pread_chk, (int fd, void* to, std::size_t bytes, off_t at, std::size_t room),
      (fd, to, bytes, at, room))
POINT(ssize_t, __pread64_chk, (int fd, void* to, std::size_t bytes, off64_t at, std::size_t room),
      (fd, to, bytes, at, room))
POINT(ssize_t, readv, (int fd, const iovec* parts, int count), (fd, parts, count))
POINT(ssize_t, preadv, (int fd, const iovec* parts, int count, off_t at), (fd, parts, count, at))
POINT(ssize_t, preadv64, (int fd, const iovec* parts, int count, off64_t at), (fd, parts, count, at))
POINT(ssize_t, preadv2, (int fd, const iovec* parts, int count, off_t at, int flags),
      (fd, parts, count, at, flags))
POINT(ssize_t, preadv64v2, (int fd, const iovec* parts, int count, off64_t at, int flags),
      (fd, parts, count, at, flags))
POINT(ssize_t, write, (int fd, const void* from, std::size_t bytes), (fd, from, bytes))
POINT(ssize_t, pwrite, (int fd, const void* from, std::size_t bytes, off_t at), (fd, from, bytes, at))
POINT(ssize_t, pwrite64, (int fd, const void* from, std::size_t bytes, off64_t at), (fd, from, bytes, at))
POINT(ssize_t, writev, (int fd, const iovec* parts, int count), (fd, parts, count))
POINT(ssize_t, pwritev, (int fd, const iovec* parts, int count, off_t at), (fd, parts, count, at))
POINT(ssize_t, pwritev64, (int fd, const iovec* parts, int count, off64_t at), (fd, parts, count, at))
POINT(ssize_t, pwritev2, (int fd, const iovec* parts, int count, off_t at, int flags),
      (fd, parts, count, at, flags))
POINT(ssize_t, pwritev64v2, (int fd, const iovec* parts, int count, off64_t at, int flags),
      (fd, parts, count, at, flags))

POINT(ssize_t, recv, (int fd, void* to, std::size_t bytes, int flags), (fd, to, bytes, flags))
POINT(ssize_t, __recv_chk, (int fd, void* to, std::size_t bytes, std::size_t room, int flags),
      (fd, to, bytes, room, flags))
POINT(ssize_t, recvfrom,
      (int fd, void* to, std::size_t bytes, int flags, sockaddr* from, socklen_t* from_bytes),
      (fd, to, bytes, flags, from, from_bytes))
POINT(ssize_t, __recvfrom_chk,
      (int fd, void* to, std::size_t bytes, std::size_t room, int flags, sockaddr* from,
       socklen_t* from_bytes),
      (fd, to, bytes, room, flags, from, from_bytes))
POINT(ssize_t, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags))
POINT(int, recvmmsg, (int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout),
      (fd, messages, count, flags, timeout))
POINT(ssize_t, send, (int fd, const void* from, std::size_t bytes, int flags), (fd, from, bytes, flags))
POINT(ssize_t, sendto,
      (int fd, const void* from, std::size_t bytes, int flags, const sockaddr* to, socklen_t to_bytes),
      (fd, from, bytes, flags, to, to_bytes))
POINT(ssize_t, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags))
POINT(int, sendmmsg, (int fd, mmsghdr* messages, unsigned count, int flags), (fd, messages, count, flags))
POINT(int, accept, (int fd, sockaddr* address, socklen_t* bytes), (fd, address, bytes))
POINT(int, accept4, (int fd, sockaddr* address, socklen_t* bytes, int flags), (fd, address, bytes, flags))
POINT(int, connect, (int fd, const sockaddr* address, socklen_t bytes), (fd, address, bytes))

POINT(int, ppoll, (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* mask),
      (fds, count, timeout, mask))
POINT(int, __poll_chk, (pollfd * fds, nfds_t count, int timeout, std::size_t room),
      (fds, count, timeout, room))
POINT(int, __ppoll_chk,
      (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* mask, std::size_t room),
      (fds, count, timeout, mask, room))
POINT(int, pselect,
      (int count, fd_set* reads, fd_set* writes, fd_set* exceptions, const timespec* timeout,
       const sigset_t* mask),
      (count, reads, writes, exceptions, timeout, mask))
POINT(int, epoll_wait, (int set, epoll_event* events, int count, int timeout), (set, events, count, timeout))
POINT(int, epoll_pwait, (int set, epoll_event* events, int count, int timeout, const sigset_t* mask),
      (set, events, count, timeout, mask))

POINT(int, creat, (const char* path, mode_t mode), (path, mode))
POINT(int, creat64, (const char* path, mode_t mode), (path, mode))
POINT(int, __open_2, (const char* path, int flags), (path, flags))
POINT(int, __open64_2, (const char* path, int flags), (path, flags))
POINT(int, __openat_2, (int directory, const char* path, int flags), (directory, path, flags))
POINT(int, __openat64_2, (int directory, const char* path, int flags), (directory, path, flags))
POINT(int, close, (int fd), (fd))
POINT(int, fsync, (int fd), (fd))
POINT(int, fdatasync, (int fd), (fd))
POINT(int, lockf, (int fd, int command, off_t bytes), (fd, command, bytes))
POINT(int, lockf64, (int fd, int command, off64_t bytes), (fd, command, bytes))
POINT(int, tcdrain, (int fd), (fd))
POINT(int, msync, (void* memory, std::size_t bytes, int flags), (memory, bytes, flags))

POINT(pid_t, wait, (int* status), (status))
POINT(pid_t, waitpid, (pid_t process, int* status, int options), (process, status, options))
POINT(pid_t, wait3, (int* status, int options, rusage* usage), (status, options, usage))
POINT(pid_t, wait4, (pid_t process, int* status, int options, rusage* usage),
      (process, status, options, usage))
POINT(int, waitid, (idtype_t type, id_t id, siginfo_t* info, int options), (type, id, info, options))

POINT(int, msgsnd, (int queue, const void* message, std::size_t bytes, int flags),
      (queue, message, bytes, flags))
POINT(ssize_t, msgrcv, (int queue, void* message, std::size_t bytes, long kind, int flags),
      (queue, message, bytes, kind, flags))
POINT(int, mq_send, (mqd_t queue, const char* from, std::size_t bytes, unsigned priority),
      (queue, from, bytes, priority))
POINT(int, mq_timedsend,
      (mqd_t queue, const char* from, std::size_t bytes, unsigned priority, const timespec* until),
      (queue, from, bytes, priority, until))
POINT(ssize_t, mq_receive, (mqd_t queue, char* to, std::size_t bytes, unsigned* priority),
      (queue, to, bytes, priority))
POINT(ssize_t, mq_timedreceive,
      (mqd_t queue, char* to, std::size_t bytes, unsigned* priority, const timespec* until),
      (queue, to, bytes, priority, until))

int WRAPPED(open)(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);  // where none is given, it is not looked at
  va_end(rest);
  return at_point([&] { return ::open(path, flags, mode); });
}
int WRAPPED(open64)(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return at_point([&] { return ::open64(path, flags, mode); });
}
int WRAPPED(openat)(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return at_point([&] { return ::openat(directory, path, flags, mode); });
}
int WRAPPED(openat64)(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return at_point([&] { return ::openat64(directory, path, flags, mode); });
}

// A point only where it waits for a lock.
int WRAPPED(fcntl)(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const auto call = [&] { return ::fcntl(fd, command, argument); };
  return command == F_SETLKW || command == F_OFD_SETLKW ? at_point(call) : call();
}
int WRAPPED(fcntl64)(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return WRAPPED(fcntl)(fd, command, argument);
}

}  // extern "C"
