// The queues of a kernel's interface that a cluster's proxies share, over AF_XDP: any host with a recent kernel and the
// privileges, no port for DPDK needed.
//
// There is one for every receive queue of the interface: the kernel gives a socket the frames of its own queue only. Those
// for another proxy are handed over by the proxy that gets them.
#pragma once

#include <memory>

#include "base/result.h"
#include "proxy/packet/kernel_interface.h"
#include "proxy/udp/socket_waker.h"

namespace braid::proxy {

// Blocks while the kernel resolves the peers' stations, for a second at most. An error names what is missing or in the way, and the
// cure.
Result<KernelWire> open_xdp_wire(const KernelWireOptions& options, const std::shared_ptr<SocketWaker>& waker);

}  // namespace braid::proxy
