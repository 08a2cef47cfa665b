#include "stack/interface.h"

namespace braid::stack {

bool on_link(const Interface& own, Ipv4Address address) {
  return own.prefix_bits == 0 || (own.address.value() ^ address.value()) >> (32 - own.prefix_bits) == 0;
}

bool is_subnet_broadcast(const Interface& own, Ipv4Address address) {
  if (own.prefix_bits == 0 || own.prefix_bits > 30 || !on_link(own, address)) return false;
  const std::uint32_t host_bits = 0xffffffffu >> own.prefix_bits;
  return (address.value() & host_bits) == host_bits || (address.value() & host_bits) == 0;
}

// ARP-2
std::optional<Ipv4Address> next_hop(const Interface& own, Ipv4Address to) {
  if (on_link(own, to)) return to;
  return own.gateway;
}

std::optional<LinkId> link_to(std::span<const Interface> links, Ipv4Address to) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (on_link(links[i], to) && (!best || links[i].prefix_bits > links[*best].prefix_bits)) best = i;
  for (std::size_t i = 0; i < links.size() && !best; ++i)
    if (links[i].gateway) best = i;
  return best ? std::optional(LinkId(static_cast<std::uint16_t>(*best))) : std::nullopt;
}

}  // namespace braid::stack
