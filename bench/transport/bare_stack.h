// One whole protocol stack at each end, driven by its process: what the transport itself costs.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/transport/system.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/udp/udp_frames.h"

namespace braid::bench {

// Where the stack of a side has its UDP port, for a wire that is a socket.
proxy::UdpEnd bare_stack_end(bool near);

// The two stacks, as they know each other.
struct StackEnd {
  stack::Ipv4Address address;
  stack::MacAddress mac;
};
struct StackEnds {
  StackEnd near, far;
  const StackEnd& of(bool is_near) const { return is_near ? near : far; }
};
// Their UDP port.
inline constexpr std::uint16_t kStackPort = 7700;

// `near`: the stack of this process is the first of the two. Without `ends` they are those of bare_stack_end().
std::unique_ptr<System> make_bare_stack(std::unique_ptr<proxy::NicQueue> queue, bool near,
                                        std::uint32_t mtu_bytes);
std::unique_ptr<System> make_bare_stack(std::unique_ptr<proxy::NicQueue> queue, bool near,
                                        std::uint32_t mtu_bytes, const StackEnds& ends);

}  // namespace braid::bench
