// A stack's interface on one link: its addresses there, and which others the link reaches (RFC 1122).
#pragma once

#include <optional>
#include <span>

#include "base/ids.h"
#include "stack/wire/addresses.h"

namespace braid::stack {

// Links that each lead to one peer may share an address.
struct Interface {
  Ipv4Address address;
  MacAddress mac;
  // Addresses that begin with so many bits of ours are on the link; all others are reached through the
  // gateway. 0: every address is on the link.
  unsigned prefix_bits = 0;
  std::optional<Ipv4Address> gateway = std::nullopt;
  // Packets of peers come from where they take packets, and that may change (SE-8): a kernel sends and receives them,
  // whose host may have another address, or be behind a NAT.
  bool peers_move = false;
};

bool on_link(const Interface& own, Ipv4Address address);
// To all hosts on the link (RFC 922). A link of two or without a prefix has no such address.
bool is_subnet_broadcast(const Interface& own, Ipv4Address address);
// An address that no other host sends from (RFC 1122, 3.2.1.3; RFC 1812, 5.3.7), and on a link of the loopback network
// no other stack.
inline bool is_martian(const Interface& own, Ipv4Address source) {
  constexpr std::uint32_t kLoopback = 127;
  const std::uint32_t network = source.value() >> 24;
  return network - 1 >= 223 || (network == kLoopback && own.address.value() >> 24 != kLoopback) ||
         source == own.address || is_subnet_broadcast(own, source);
}
// Where a packet to `to` is handed to on the link; nullopt: it cannot be forwarded there. ARP-2
std::optional<Ipv4Address> next_hop(const Interface& own, Ipv4Address to);

// The link that leads to an address: one that it is on, with the longest prefix, or else the first with a
// gateway. nullopt: there is none.
std::optional<LinkId> link_to(std::span<const Interface> links, Ipv4Address to);

}  // namespace braid::stack
