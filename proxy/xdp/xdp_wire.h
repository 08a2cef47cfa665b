// The queues of a kernel's interface that a cluster's proxies share, over AF_XDP: any host with a recent kernel and the
// privileges, no port for DPDK needed.
//
// There is one for every receive queue of the interface: the kernel gives a socket the frames of its own queue only. Those
// for another proxy are handed over by the proxy that gets them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/udp/socket_waker.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

struct XdpWireOptions {
  stack::Ipv4Address own;  // the kernel's address on the interface
  std::uint16_t first_port = 0;
  unsigned proxies = 1;
  std::uint32_t mtu_bytes = 1500;
  std::vector<stack::Ipv4Address> peers;
};

struct XdpWire {
  stack::MacAddress mac;
  // Queue i is proxy i % proxies'; a proxy's frames leave by its first.
  std::vector<std::unique_ptr<NicQueue>> queues;
};

// Blocks while the kernel resolves the peers' stations, for a second at most. An error names what is missing or in the way, and the
// cure.
Result<XdpWire> open_xdp_wire(const XdpWireOptions& options, const std::shared_ptr<SocketWaker>& waker);

}  // namespace braid::proxy
