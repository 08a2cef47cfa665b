#include "proxy/packet/packet_wire.h"

#include <utility>

#include "base/ethernet.h"
#include "proxy/packet/packet_queue.h"

namespace braid::proxy {

Result<KernelWire> open_packet_wire(const KernelWireOptions& options,
                                    const std::shared_ptr<SocketWaker>& waker) {
  const Result<KernelInterface> interface = find_interface(options.own);
  if (!interface) return interface.error();
  if (options.mtu_bytes > interface->mtu_bytes)
    return error(
        "transport.mtu_bytes is {} but {} takes packets of {}: set at most {}, or 'ip link set dev {} mtu {}'",
        options.mtu_bytes, interface->name, interface->mtu_bytes, interface->mtu_bytes, interface->name,
        options.mtu_bytes);
  const Result<std::shared_ptr<KernelPaths>> paths = follow_paths(*interface, options);
  if (!paths) return paths.error();
  KernelWire wire;
  wire.mac = interface->mac;
  for (unsigned p = 0; p < options.proxies; ++p) {
    Result<std::unique_ptr<PacketQueue>> queue =
        PacketQueue::open({.interface = interface->name,
                           .own = options.own,
                           .port = static_cast<std::uint16_t>(options.first_port + p),
                           .proxy = p,
                           .max_frame_bytes = options.mtu_bytes + kEthernetHeaderBytes},
                          *paths, waker);
    if (!queue) return queue.error();
    wire.queues.push_back(std::move(*queue));
  }
  return wire;
}

}  // namespace braid::proxy
