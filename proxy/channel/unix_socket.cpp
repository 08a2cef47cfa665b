#include "proxy/channel/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/system_error.h"

namespace braid::proxy {
namespace {

Result<socklen_t> fill(sockaddr_un* to, const std::string& address) {
  *to = {};
  to->sun_family = AF_UNIX;
  if (address.empty() || address.size() >= sizeof to->sun_path)
    return error("'{}' is no address of a Unix socket: give a path, or @name, of 1 to {} characters", address,
                 sizeof to->sun_path - 1);
  std::memcpy(to->sun_path, address.data(), address.size());
  const bool abstract = address[0] == '@';
  if (abstract) to->sun_path[0] = '\0';
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() + (abstract ? 0 : 1));
}

}  // namespace

Result<int> connect_unix(const std::string& address) {
  sockaddr_un to;
  const Result<socklen_t> length = fill(&to, address);
  if (!length) return length.error();
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return error("cannot make a Unix socket: {}", cause_and_cure(errno));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), length.value()) != 0) {
    const int failure = errno;
    ::close(fd);
    return error("cannot reach the service at '{}': {}: is its braidd running?", address,
                 std::strerror(failure));
  }
  return fd;
}

Result<int> listen_unix(const std::string& address) {
  sockaddr_un to;
  const Result<socklen_t> length = fill(&to, address);
  if (!length) return length.error();
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return error("cannot make a Unix socket: {}", cause_and_cure(errno));
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&to), length.value()) != 0 || ::listen(fd, 64) != 0) {
    const int failure = errno;
    ::close(fd);
    return error("cannot listen at '{}': {}: choose another address, or remove what a dead braidd left there",
                 address, std::strerror(failure));
  }
  return fd;
}

Sent send_message(int socket, const control::Message& message, int fd, bool wait) {
  iovec part{const_cast<control::Message*>(&message), sizeof message};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    header.msg_control = space;
    header.msg_controllen = sizeof space;
    cmsghdr* const c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    if (sent == static_cast<ssize_t>(sizeof message)) return Sent::kSent;
    if (sent < 0 && errno == EINTR) continue;
    // Too many descriptors are in flight between processes: a transient lack of room.
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS)) return Sent::kNoRoom;
    return Sent::kGone;
  }
}

bool send_message(int socket, const control::Message& message, int fd) {
  return send_message(socket, message, fd, true) == Sent::kSent;
}

bool receive_message(int socket, control::Message* message, int* fd) {
  *fd = -1;
  iovec part{message, sizeof *message};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  // Alignment leaves room for more descriptors than one; whatever the kernel puts there is ours to close.
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  header.msg_control = space;
  header.msg_controllen = sizeof space;
  ssize_t got = 0;
  do got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); got >= 0 && c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(c) + i * sizeof passed, sizeof passed);
      if (*fd < 0)
        *fd = passed;
      else
        ::close(passed);
    }
  }
  if (got == static_cast<ssize_t>(sizeof *message) && (header.msg_flags & MSG_TRUNC) == 0) return true;
  if (*fd >= 0) ::close(*fd);
  *fd = -1;
  return false;
}

}  // namespace braid::proxy
