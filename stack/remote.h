// One remote proxy that a stack has a sub-connection with, and what ICMP reported about it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "stack/wire/addresses.h"
#include "stack/wire/icmp.h"
#include "stack/wire/segment.h"

namespace braid::stack {

struct RemoteStack {
  StackId id;
  Ipv4Address address;
  std::uint16_t udp_port = 0;  // of that proxy
  LinkId link;
  std::optional<MacAddress> mac;  // of it, or of the gateway before it; static: no ARP
  std::uint64_t incarnation = 0;  // of this node, as that cluster's proxies shall know it
  bool preferred = true;          // for its driver: of those of its cluster, send to this one while it lives
  // One of its steered ports that it shall send to us from; 0: whichever it likes.
  std::uint16_t wanted_source_port = 0;
  // Its packets are sealed where the stack has a secret; for good, also of a slot.
  bool is_sealed = true;
  // Only `id` is known yet: a slot, which set_remote() fills while everything runs.
  bool absent = false;
  // One of another machine, which numbers clusters in its own way and shares less: what packets say
  // instead of our names for the two ends, and the hash. What comes from it names it as `id`.
  struct Names {
    StackId us;
    StackId it;
    std::uint64_t shared_hash = 0;
  };
  std::optional<Names> names = std::nullopt;
};

// An address and a UDP port.
struct Endpoint {
  Ipv4Address address;
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

// ICMP's reports about a remote that tell why it does not answer.
struct PathReport {
  std::uint64_t unreachables = 0;
  Unreachable reason{};         // the last
  std::uint16_t mtu_bytes = 0;  // of the narrowest link on the way, if one said so; else 0
};

}  // namespace braid::stack
