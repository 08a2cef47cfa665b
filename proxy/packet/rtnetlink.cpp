#include "proxy/packet/rtnetlink.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/check.h"

namespace braid::proxy::rtnetlink {
namespace {

// A request: the header, a body, attributes that are IPv4 addresses.
template <class Body>
class Request {
 public:
  Request(std::uint16_t type, std::uint16_t flags, const Body& body) {
    header()->nlmsg_type = type;
    header()->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    header()->nlmsg_len = NLMSG_LENGTH(sizeof body);
    std::memcpy(NLMSG_DATA(header()), &body, sizeof body);
  }
  void add(std::uint16_t type, stack::Ipv4Address address) {
    const std::size_t at = NLMSG_ALIGN(header()->nlmsg_len);
    CHECK_LE(at + RTA_LENGTH(stack::Ipv4Address::kBytes), bytes_.size());
    const rtattr attribute{.rta_len = RTA_LENGTH(stack::Ipv4Address::kBytes), .rta_type = type};
    std::memcpy(&bytes_[at], &attribute, sizeof attribute);
    address.store(&bytes_[at + RTA_LENGTH(0)]);
    header()->nlmsg_len = static_cast<std::uint32_t>(at + attribute.rta_len);
  }
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(bytes_.data()); }

 private:
  alignas(nlmsghdr) std::array<std::byte, 128> bytes_{};
};

// The answer, which is one message: a body and attributes. Valid until the next.
class Answer {
 public:
  // False: an error, or none came.
  bool ask(int socket, nlmsghdr* request) {
    static std::atomic<std::uint32_t> numbers{0};
    request->nlmsg_seq = ++numbers;
    if (::send(socket, request, request->nlmsg_len, 0) < 0) return false;
    while (true) {
      const ssize_t got = ::recv(socket, bytes_.data(), bytes_.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return false;
      // An answer to an earlier request that was given up.
      if (header()->nlmsg_seq != request->nlmsg_seq) continue;
      return header()->nlmsg_type != NLMSG_ERROR && header()->nlmsg_type != NLMSG_DONE;
    }
  }
  template <class Body>
  Body body() const {
    Body body;
    std::memcpy(&body, NLMSG_DATA(header()), sizeof body);
    return body;
  }
  // Empty: there is none of this type.
  template <class Body>
  std::span<const std::byte> attribute(std::uint16_t type) const {
    std::size_t at = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(Body)));
    while (at + sizeof(rtattr) <= header()->nlmsg_len) {
      rtattr one;
      std::memcpy(&one, &bytes_[at], sizeof one);
      if (one.rta_len < RTA_LENGTH(0)) break;
      if (one.rta_type == type)
        return std::span(bytes_).subspan(at + RTA_LENGTH(0), one.rta_len - RTA_LENGTH(0));
      at += RTA_ALIGN(one.rta_len);
    }
    return {};
  }

 private:
  const nlmsghdr* header() const { return reinterpret_cast<const nlmsghdr*>(bytes_.data()); }
  alignas(nlmsghdr) std::array<std::byte, 8192> bytes_;
};

}  // namespace

int open(unsigned groups) {
  const int socket =
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | (groups != 0 ? SOCK_NONBLOCK : 0), NETLINK_ROUTE);
  if (socket < 0) return -1;
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  own.nl_groups = groups;
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  (void)::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const int status = ::bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own);
  CHECK_EQ(status, 0);
  return socket;
}

std::optional<Route> route(int socket, stack::Ipv4Address from, stack::Ipv4Address to) {
  rtmsg body{};
  body.rtm_family = AF_INET;
  body.rtm_dst_len = body.rtm_src_len = 32;
  Request<rtmsg> request(RTM_GETROUTE, 0, body);
  request.add(RTA_DST, to);
  request.add(RTA_SRC, from);
  Answer answer;
  if (!answer.ask(socket, request.header())) return std::nullopt;
  Route found;
  found.next_hop = to;
  found.is_local = answer.body<rtmsg>().rtm_type == RTN_LOCAL;
  if (const auto by = answer.attribute<rtmsg>(RTA_OIF); by.size() == sizeof found.interface)
    std::memcpy(&found.interface, by.data(), by.size());
  if (const auto router = answer.attribute<rtmsg>(RTA_GATEWAY); router.size() == stack::Ipv4Address::kBytes)
    found.next_hop = stack::Ipv4Address::load(router.data());
  return found;
}

std::optional<Neighbour> neighbour(int socket, int interface, stack::Ipv4Address address) {
  ndmsg body{};
  body.ndm_family = AF_INET;
  body.ndm_ifindex = interface;
  Request<ndmsg> request(RTM_GETNEIGH, 0, body);
  request.add(NDA_DST, address);
  Answer answer;
  if (!answer.ask(socket, request.header())) return std::nullopt;
  constexpr unsigned kValid = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;
  const unsigned state = answer.body<ndmsg>().ndm_state;
  const auto station = answer.attribute<ndmsg>(NDA_LLADDR);
  if ((state & kValid) == 0 || station.size() != stack::MacAddress::kBytes) return std::nullopt;
  return Neighbour{stack::MacAddress::load(station.data()),
                   (state & (NUD_STALE | NUD_DELAY | NUD_PROBE)) == 0};
}

void resolve(int socket, int interface, stack::Ipv4Address address) {
  ndmsg body{};
  body.ndm_family = AF_INET;
  body.ndm_ifindex = interface;
  body.ndm_flags = NTF_USE;
  Request<ndmsg> request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, body);
  request.add(NDA_DST, address);
  Answer answer;
  (void)answer.ask(socket, request.header());
}

}  // namespace braid::proxy::rtnetlink
