// The queues of a kernel's interface for a cluster's proxies, over AF_PACKET: any Linux and any Ethernet, also where AF_XDP is missing, an
// interface has too few queues, or several clusters share it.
#pragma once

#include <memory>

#include "base/result.h"
#include "proxy/packet/kernel_interface.h"
#include "proxy/udp/socket_waker.h"

namespace braid::proxy {

// Blocks as follow_paths() does. An error names what is missing or in the way, and the cure.
Result<KernelWire> open_packet_wire(const KernelWireOptions& options,
                                    const std::shared_ptr<SocketWaker>& waker);

}  // namespace braid::proxy
