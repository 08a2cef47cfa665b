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

// `near`: the stack of this process is the first of the two.
std::unique_ptr<System> make_bare_stack(std::unique_ptr<proxy::NicQueue> queue, bool near,
                                        std::uint32_t mtu_bytes);

}  // namespace braid::bench
