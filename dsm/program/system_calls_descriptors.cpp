// Calls of the C library for descriptors: waiting for them, sockets, control (system_calls.h).
#undef _FORTIFY_SOURCE  // its inline functions would have the names that are defined here

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "dsm/program/given_mask.h"
#include "dsm/program/shared_arguments.h"

// Calls of programs that were compiled with _FORTIFY_SOURCE: `room` is the size that the compiler knows.
extern "C" {
int __poll_chk(pollfd* fds, nfds_t count, int timeout, std::size_t room);
int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask, std::size_t room);
}

#define BRAID_EACH_DESCRIPTOR_CALL(X) \
  X(pipe)                             \
  X(pipe2)                            \
  X(socketpair)                       \
  X(poll)                             \
  X(ppoll)                            \
  X(select)                           \
  X(pselect)                          \
  X(epoll_ctl)                        \
  X(epoll_wait)                       \
  X(epoll_pwait)                      \
  X(epoll_pwait2)                     \
  X(getsockopt)                       \
  X(setsockopt)                       \
  X(accept)                           \
  X(accept4)                          \
  X(getsockname)                      \
  X(getpeername)                      \
  X(bind)                             \
  X(connect)                          \
  X(ioctl)                            \
  X(fcntl)                            \
  X(signalfd)                         \
  X(timerfd_settime)                  \
  X(timerfd_gettime)                  \
  X(__poll_chk)                       \
  X(__ppoll_chk)

BRAID_EACH_DESCRIPTOR_CALL(BRAID_WEAK_CALL)

namespace braid::dsm {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
BRAID_ORIGINALS(BRAID_EACH_DESCRIPTOR_CALL)
#pragma GCC diagnostic pop

// The two descriptors of pipe() and socketpair().
template <class Call>
int make_pair(int* ends, Call&& call) {
  ChangedBytes copy(ends, 2 * sizeof *ends);
  int* const made = copy.as<int>();
  const int result = call(made);
  for (int i = 0; result == 0 && i < 2; ++i) made[i] = opened(made[i]);
  return result;
}

// A set of descriptors below `count`: the kernel touches whole words.
class DescriptorSet : public ChangedBytes {
 public:
  DescriptorSet(fd_set* set, int count)
      : ChangedBytes(set, (static_cast<std::size_t>(std::max(count, 0)) + 63) / 64 * sizeof(std::uint64_t)) {}
  operator fd_set*() { return as<fd_set>(); }  // NOLINT: it stands where the C library takes a set
};

// An address that the kernel writes, and its length: the room before the call, what was needed after it.
class ChangedAddress {
 public:
  ChangedAddress(sockaddr* address, socklen_t* bytes)
      : address_(address, bytes == nullptr ? 0 : std::min<std::size_t>(*bytes, sizeof(sockaddr_storage))),
        bytes_(bytes) {}
  sockaddr* address() { return address_.as<sockaddr>(); }
  socklen_t* bytes() { return bytes_; }

 private:
  ChangedBytes address_;
  Changed<socklen_t> bytes_;
};

// The bytes that a request of ioctl(2) reads or writes; 0: not known, or none.
std::size_t bytes_of_request(unsigned long request) {
  switch (request) {  // older requests do not say it in their numbers
    case FIONREAD:
    case TIOCOUTQ:
    case FIONBIO:
    case FIOASYNC:
    case TIOCGPGRP:
    case TIOCSPGRP:
    case TIOCGSID:
    case SIOCATMARK:
    case FIOGETOWN:
    case FIOSETOWN:
      return sizeof(int);
    case TIOCGWINSZ:
    case TIOCSWINSZ:
      return sizeof(winsize);
    case TCGETS:
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
      return 36;  // the kernel's termios, which is shorter than the C library's
    case SIOCGIFFLAGS:
    case SIOCGIFADDR:
    case SIOCGIFNETMASK:
    case SIOCGIFBRDADDR:
    case SIOCGIFHWADDR:
    case SIOCGIFMTU:
    case SIOCGIFINDEX:
    case SIOCGIFNAME:
      return sizeof(ifreq);
    default:
      return _IOC_DIR(request) == _IOC_NONE ? 0 : _IOC_SIZE(request);
  }
}

// What a command of fcntl(2) reads or writes; 0: nothing.
std::size_t bytes_of_command(int command) {
  switch (command) {
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
      return sizeof(struct flock);
    case F_GETOWN_EX:
    case F_SETOWN_EX:
      return sizeof(f_owner_ex);
    case F_GET_RW_HINT:
    case F_SET_RW_HINT:
    case F_GET_FILE_RW_HINT:
    case F_SET_FILE_RW_HINT:
      return sizeof(std::uint64_t);
    default:
      return 0;
  }
}

// Waits into private memory, of which `count` events are copied at most.
template <class Call>
int wait_for_events(epoll_event* events, int count, Call&& call) {
  if (!is_shared(events) || count <= 0) return call(events, count);
  Room room(static_cast<std::size_t>(count) * sizeof *events);
  if (!room.is_there()) return -1;
  auto* const copy = reinterpret_cast<epoll_event*>(room.data());
  const int found = call(copy, static_cast<int>(room.size() / sizeof *events));
  std::copy_n(copy, std::max(found, 0), events);
  return found;
}

constexpr std::size_t kMostValueBytes = 256;

// `result` is that of a call that fills in `value` and its size. If the descriptor is open in another cluster use(to, bytes) makes the
// same call there, and its value is copied here.
template <class Use>
int brought_value(const char* call, int fd, int result, void* value, socklen_t* bytes, Use use) {
  if (!may_be_elsewhere(result, fd) || value == nullptr || bytes == nullptr) return result;
  std::array<char, kMostValueBytes> there;
  const socklen_t room = *bytes;
  socklen_t there_bytes = std::min<socklen_t>(room, kMostValueBytes);
  result = where_open(call, fd, result,
                      [=, to = there.data(), to_bytes = &there_bytes] { return use(to, to_bytes); });
  if (result != 0) return result;
  std::memcpy(value, there.data(), std::min<std::size_t>({room, there_bytes, kMostValueBytes}));
  *bytes = there_bytes;
  return 0;
}

}  // namespace

NamesOfCalls descriptor_calls() {
  return kNamesOfCalls;
}

}  // namespace braid::dsm

// --- The C library's names

using namespace braid::dsm;  // NOLINT

#pragma GCC visibility push(default)
extern "C" {

int pipe(int* ends) noexcept {
  return make_pair(ends, [](int* to) { return original().pipe(to); });
}
int pipe2(int* ends, int flags) noexcept {
  return make_pair(ends, [&](int* to) { return original().pipe2(to, flags); });
}
int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  return make_pair(ends, [&](int* to) { return original().socketpair(domain, type, protocol, to); });
}

int poll(pollfd* fds, nfds_t count, int timeout) {
  const auto wait = [=] {
    ChangedBytes copy(fds, count * sizeof *fds);
    return copy.is_there() ? original().poll(copy.as<pollfd>(), count, timeout) : -1;
  };
  const int result = wait();
  // A single descriptor may be one of another cluster.
  if (count != 1 || result != 1 || fds->revents != POLLNVAL) return result;
  errno = EBADF;
  if (!may_be_elsewhere(-1, fds->fd)) return result;
  pollfd there = *fds;
  const int ready =
      where_open("poll()", there.fd, -1, [timeout, to = &there] { return ::poll(to, 1, timeout); });
  if (ready < 0 && errno == EBADF) return result;
  *fds = there;
  return ready;
}
int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  ChangedBytes copy(fds, count * sizeof *fds);
  return copy.is_there()
             ? original().ppoll(copy.as<pollfd>(), count, Given<timespec>(timeout), GivenMask(mask))
             : -1;
}
int select(int count, fd_set* read, fd_set* write, fd_set* other, timeval* timeout) {
  DescriptorSet reads(read, count), writes(write, count), others(other, count);
  if (!reads.is_there() || !writes.is_there() || !others.is_there()) return -1;
  return original().select(count, reads, writes, others, Changed<timeval>(timeout));
}
int pselect(int count, fd_set* read, fd_set* write, fd_set* other, const timespec* timeout,
            const sigset_t* mask) {
  DescriptorSet reads(read, count), writes(write, count), others(other, count);
  if (!reads.is_there() || !writes.is_there() || !others.is_there()) return -1;
  return original().pselect(count, reads, writes, others, Given<timespec>(timeout), GivenMask(mask));
}
int epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept {
  return original().epoll_ctl(set, operation, fd, const_cast<epoll_event*>(+Given<epoll_event>(event)));
}
int epoll_wait(int set, epoll_event* events, int count, int timeout) {
  return wait_for_events(events, count, [&](epoll_event* to, int most) {
    return original().epoll_wait(set, to, most, timeout);
  });
}
int epoll_pwait(int set, epoll_event* events, int count, int timeout, const sigset_t* mask) {
  const GivenMask given(mask);
  return wait_for_events(events, count, [&](epoll_event* to, int most) {
    return original().epoll_pwait(set, to, most, timeout, given);
  });
}
int epoll_pwait2(int set, epoll_event* events, int count, const timespec* timeout, const sigset_t* mask) {
  const Given<timespec> limit(timeout);
  const GivenMask given(mask);
  return wait_for_events(events, count, [&](epoll_event* to, int most) {
    return original().epoll_pwait2(set, to, most, limit, given);
  });
}

int getsockopt(int fd, int level, int name, void* value, socklen_t* bytes) noexcept {
  const auto ask = [=] {
    ChangedBytes copy(value, bytes == nullptr ? 0 : *bytes);
    return copy.is_there()
               ? original().getsockopt(fd, level, name, copy.as<void>(), Changed<socklen_t>(bytes))
               : -1;
  };
  return brought_value("getsockopt()", fd, ask(), value, bytes, [=](void* to, socklen_t* to_bytes) {
    return ::getsockopt(fd, level, name, to, to_bytes);
  });
}
int setsockopt(int fd, int level, int name, const void* value, socklen_t bytes) noexcept {
  const auto set = [=] {
    const GivenBytes copy(value, bytes);
    return copy.is_there() ? original().setsockopt(fd, level, name, copy.as<void>(), bytes) : -1;
  };
  const int result = set();
  if (!may_be_elsewhere(result, fd) || bytes > kMostValueBytes) return result;
  std::array<char, kMostValueBytes> there;
  if (bytes > 0) std::memcpy(there.data(), value, bytes);
  return where_open("setsockopt()", fd, result,
                    [=, from = there.data()] { return ::setsockopt(fd, level, name, from, bytes); });
}
int accept(int fd, sockaddr* address, socklen_t* bytes) {
  ChangedAddress from(address, bytes);
  return opened(original().accept(fd, from.address(), from.bytes()));
}
int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  ChangedAddress from(address, bytes);
  return opened(original().accept4(fd, from.address(), from.bytes(), flags));
}
int getsockname(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  const auto ask = [=] {
    ChangedAddress own(address, bytes);
    return original().getsockname(fd, own.address(), own.bytes());
  };
  return brought_value("getsockname()", fd, ask(), address, bytes, [=](void* to, socklen_t* to_bytes) {
    return ::getsockname(fd, static_cast<sockaddr*>(to), to_bytes);
  });
}
int getpeername(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  const auto ask = [=] {
    ChangedAddress peer(address, bytes);
    return original().getpeername(fd, peer.address(), peer.bytes());
  };
  return brought_value("getpeername()", fd, ask(), address, bytes, [=](void* to, socklen_t* to_bytes) {
    return ::getpeername(fd, static_cast<sockaddr*>(to), to_bytes);
  });
}
int bind(int fd, const sockaddr* address, socklen_t bytes) noexcept {
  const GivenBytes copy(address, bytes);
  return copy.is_there() ? original().bind(fd, copy.as<sockaddr>(), bytes) : -1;
}
int connect(int fd, const sockaddr* address, socklen_t bytes) {
  const GivenBytes copy(address, bytes);
  return copy.is_there() ? original().connect(fd, copy.as<sockaddr>(), bytes) : -1;
}

int ioctl(int fd, unsigned long request, ...) noexcept {  // NOLINT: as the C library declares it
  std::va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const std::size_t bytes = is_shared(argument) ? bytes_of_request(request) : 0;
  if (bytes == 0) return original().ioctl(fd, request, argument);
  ChangedBytes copy(argument, bytes);
  return copy.is_there() ? original().ioctl(fd, request, copy.as<void>()) : -1;
}
int fcntl(int fd, int command, ...) {  // NOLINT: as the C library declares it
  std::va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const std::size_t bytes = is_shared(argument) ? bytes_of_command(command) : 0;
  const bool makes_one = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  const auto call = [&] {
    if (bytes == 0) return original().fcntl(fd, command, argument);
    ChangedBytes copy(argument, bytes);
    return original().fcntl(fd, command, copy.as<void>());
  };
  const int result = call();
  // What the argument points to is shared, or the command does not know the other cluster's.
  if (bytes_of_command(command) > 0 && bytes == 0) return result;
  return where_open("fcntl()", fd, makes_one && argument == nullptr ? opened(result) : result,
                    [=] { return ::fcntl(fd, command, argument); });
}
int signalfd(int fd, const sigset_t* signals, int flags) noexcept {
  return original().signalfd(fd, Given<sigset_t>(signals), flags);
}
int timerfd_settime(int fd, int flags, const itimerspec* time, itimerspec* before) noexcept {
  return original().timerfd_settime(fd, flags, Given<itimerspec>(time), Changed<itimerspec>(before));
}
int timerfd_gettime(int fd, itimerspec* time) noexcept {
  return original().timerfd_gettime(fd, Changed<itimerspec>(time));
}

// The original ends the program where the compiler knows that the array is too small.
int __poll_chk(pollfd* fds, nfds_t count, int timeout, std::size_t room) {  // NOLINT
  return is_shared(fds) && count * sizeof *fds <= room ? ::poll(fds, count, timeout)
                                                       : original().__poll_chk(fds, count, timeout, room);
}
int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask,  // NOLINT
                std::size_t room) {
  return count * sizeof *fds <= room ? ::ppoll(fds, count, timeout, mask)
                                     : original().__ppoll_chk(fds, count, timeout, mask, room);
}

// The name of programs that were compiled for large files: struct flock is the same with and without.
static_assert(sizeof(struct flock) == sizeof(struct flock64));
int fcntl64(int fd, int command, ...) __attribute__((weak, alias("fcntl")));  // NOLINT

}  // extern "C"
#pragma GCC visibility pop
