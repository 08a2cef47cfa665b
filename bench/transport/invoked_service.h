// The client library and its node in one process, driven by the application ("invoker" mode): what an
// application gets.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/transport/system.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/udp/udp_frames.h"

namespace braid::bench {

// Where the proxy of a side has its UDP port, for a wire that is a socket.
proxy::UdpEnd invoked_service_end(bool near);

// `near`: the node of this process is cluster 0, and connects.
std::unique_ptr<System> make_invoked_service(std::unique_ptr<proxy::NicQueue> queue, bool near,
                                             std::uint32_t mtu_bytes);

}  // namespace braid::bench
