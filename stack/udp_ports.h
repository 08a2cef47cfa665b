// The owners of a node's UDP ports: each proxy's own and those that it may be asked to send from (SC-12); all
// others belong to proxy 0, which binds them for plain datagrams (UDP-2).
//
//   base .. base + proxies - 1              proxy i listens on base + i
//   49152 + 512 i .. 49152 + 512 i + 511    proxy i sends from these, if a peer asks; nothing listens on them
//
// Pure; owned by the stack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/limits.h"

namespace braid::stack {

inline constexpr unsigned kMaxProxiesPerCluster = kMaxProxies;
// Owns the ports that are no proxy's.
inline constexpr unsigned kDatagramProxy = 0;

// A proxy sends from its own port, or from one of these if a peer asks for it because its NIC brings packets
// from there to the right queue (SC-12): the dynamic ports (RFC 6335), so many for each proxy.
inline constexpr unsigned kSteeredPortsPerProxy = 512;
constexpr std::uint16_t first_steered_port(unsigned proxy) {
  return static_cast<std::uint16_t>(65536 - kSteeredPortsPerProxy * (kMaxProxiesPerCluster - proxy));
}
static_assert(first_steered_port(0) == 49152);

class UdpPorts {
 public:
  // Of proxy number `own`, of `proxies` of a node.
  UdpPorts(std::uint16_t base, unsigned own, unsigned proxies) : base_(base), own_(own), proxies_(proxies) {}

  unsigned own_proxy() const { return own_; }
  std::uint16_t own_port() const { return static_cast<std::uint16_t>(base_ + own_); }
  // The proxy that listens on the port; nullopt: none.
  std::optional<unsigned> listener(std::uint16_t port) const {
    const unsigned proxy = port - unsigned{base_};
    return proxy < proxies_ ? std::optional(proxy) : std::nullopt;
  }
  // The proxy that listens on the port or sends from it; nullopt: none.
  std::optional<unsigned> owner(std::uint16_t port) const {
    if (const std::optional<unsigned> listens = listener(port)) return listens;
    const unsigned sends = (port - unsigned{first_steered_port(0)}) / kSteeredPortsPerProxy;
    return sends < proxies_ ? std::optional(sends) : std::nullopt;
  }
  // Where this proxy's packets come from if the peer asks for `asked`. A peer cannot make us send from a port
  // that is another's (SC-12).
  std::uint16_t source(std::uint16_t asked) const {
    const unsigned n = asked - unsigned{first_steered_port(own_)};
    return n < kSteeredPortsPerProxy ? asked : own_port();
  }

  // For plain datagrams; only proxy 0 binds. False: the port is a proxy's, or taken.
  [[nodiscard]] bool bind(std::uint16_t port) {
    CHECK_EQ(own_, kDatagramProxy);
    if (port == 0 || owner(port) || is_bound(port)) return false;
    bound_.push_back(port);
    return true;
  }
  void unbind(std::uint16_t port) { std::erase(bound_, port); }
  bool is_bound(std::uint16_t port) const {
    return std::find(bound_.begin(), bound_.end(), port) != bound_.end();
  }

 private:
  std::uint16_t base_;
  unsigned own_;
  unsigned proxies_;
  std::vector<std::uint16_t> bound_;
};

}  // namespace braid::stack
