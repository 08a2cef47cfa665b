#include "proxy/udp/udp_socket.h"

#include <linux/errqueue.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "proxy/nic/nic_queue.h"

namespace braid::proxy {
namespace {

sockaddr_in kernel_address(const UdpEnd& end) {
  return {.sin_family = AF_INET,
          .sin_port = swapped(end.port),
          .sin_addr = {swapped(end.address.value())},
          .sin_zero = {}};
}

int open_socket() {
  return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int get(int socket, int level, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, level, option, &value, &bytes) == 0 ? value : 0;
}

std::string cure_of(int why, const UdpEnd& own) {
  switch (why) {
    case EADDRNOTAVAIL:
      return fmt::format("this host has no address {}; see 'ip address'", own.address.to_string());
    case EADDRINUSE:
      return fmt::format(
          "another process has UDP port {}; set another udp_port; a 'braid run' that is begun again takes others",
          own.port);
    default:
      return std::strerror(why);
  }
}

}  // namespace

Result<std::uint32_t> path_mtu(stack::Ipv4Address own, stack::Ipv4Address peer) {
  const int socket = open_socket();
  if (socket < 0) return error("a UDP socket could not be opened: {}", std::strerror(errno));
  const sockaddr_in from = kernel_address({own, 0});
  const sockaddr_in to = kernel_address({peer, 9});  // nothing is sent there
  int why = 0;
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0 ||
      ::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    why = errno;
  const int bytes = get(socket, IPPROTO_IP, IP_MTU);
  ::close(socket);
  if (why != 0)
    return error(
        "no way from {} to {}: {}{}", own.to_string(), peer.to_string(), cure_of(why, {own, 0}),
        why == EADDRNOTAVAIL
            ? ""
            : fmt::format(
                  "; see 'ip route get {} from {} ipproto udp', and name addresses that reach each other",
                  peer.to_string(), own.to_string()));
  // The MTU of the loopback interface is one more than an IP packet can be long.
  return std::min<std::uint32_t>(static_cast<std::uint32_t>(bytes), 65535);
}

Result<int> bind_udp_socket(const UdpEnd& end) {
  const int socket = open_socket();
  if (socket < 0) return error("a UDP socket could not be opened: {}", std::strerror(errno));
  const sockaddr_in own = kernel_address(end);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    const int why = errno;
    ::close(socket);
    return error("UDP {}:{}: {}", end.address.to_string(), end.port, cure_of(why, end));
  }
  const int on = 1;
  const int status = ::setsockopt(socket, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
  CHECK_EQ(status, 0);
  return socket;
}

void size_socket_buffers(int socket, std::uint32_t bytes) {
  const int value = static_cast<int>(bytes);
  for (const auto& [forced, plain] :
       {std::pair(SO_RCVBUFFORCE, SO_RCVBUF), std::pair(SO_SNDBUFFORCE, SO_SNDBUF)})
    if (::setsockopt(socket, SOL_SOCKET, forced, &value, sizeof value) != 0)
      (void)::setsockopt(socket, SOL_SOCKET, plain, &value, sizeof value);
}

std::uint64_t socket_drops(int socket) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> values{};
  socklen_t bytes = sizeof values;
  if (::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, values.data(), &bytes) != 0)
    return 0;  // before Linux 4.12
  return values[SK_MEMINFO_DROPS];
}

bool has_address(stack::Ipv4Address own) {
  const int socket = open_socket();
  if (socket < 0) return true;  // nothing is known
  const sockaddr_in address = kernel_address({own, 0});
  const bool has = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
                   errno != EADDRNOTAVAIL;
  ::close(socket);
  return has;
}

std::optional<stack::Ipv4Address> source_to(stack::Ipv4Address peer) {
  const int socket = open_socket();
  if (socket < 0) return std::nullopt;
  const sockaddr_in to = kernel_address({peer, 9});  // nothing is sent there
  sockaddr_in from{};
  socklen_t bytes = sizeof from;
  const bool known = ::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&from), &bytes) == 0;
  ::close(socket);
  if (!known) return std::nullopt;
  return stack::Ipv4Address(swapped(std::uint32_t{from.sin_addr.s_addr}));
}

std::size_t take_icmp_errors(int socket) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < kMaxBurst; ++i) {
    alignas(cmsghdr) std::array<std::byte, 256> control;
    std::byte payload;
    iovec vector{&payload, 1};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR) continue;
      sock_extended_err why;
      std::memcpy(&why, CMSG_DATA(c), sizeof why);
      if (why.ee_origin == SO_EE_ORIGIN_ICMP) ++count;
    }
  }
  return count;
}

}  // namespace braid::proxy
