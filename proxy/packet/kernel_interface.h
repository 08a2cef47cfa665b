// An interface of the kernel's as a wire between hosts: it keeps its address and its other traffic, and the proxies' datagrams go past
// the kernel's network code. What its wires (packet_wire.h, proxy/xdp/xdp_wire.h) have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/packet/kernel_paths.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

struct KernelWireOptions {
  stack::Ipv4Address own;  // the kernel's address on the interface
  std::uint16_t first_port = 0;
  unsigned proxies = 1;
  std::uint32_t mtu_bytes = 1500;
  std::vector<stack::Ipv4Address> peers;
};

struct KernelWire {
  stack::MacAddress mac;
  // Queue i is proxy i % proxies'; a proxy's frames leave by its first.
  std::vector<std::unique_ptr<NicQueue>> queues;
};

struct KernelInterface {
  std::string name;
  unsigned mtu_bytes = 0;
  stack::MacAddress mac;
  unsigned receive_queues = 1;
  unsigned send_queues = 1;
};

// The interface that has the address. An error: none has, or it is down, or no Ethernet.
Result<KernelInterface> find_interface(stack::Ipv4Address own);

// The ways to the peers. Blocks while the kernel resolves their stations, for a second at most. An error names what is in the way, and the cure.
Result<std::shared_ptr<KernelPaths>> follow_paths(const KernelInterface& interface,
                                                  const KernelWireOptions& options);

}  // namespace braid::proxy
