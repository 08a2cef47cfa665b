#include "proxy/xdp/xdp_wire.h"

#include <algorithm>
#include <utility>

#include "proxy/xdp/xdp_program.h"
#include "proxy/xdp/xdp_queue.h"

namespace braid::proxy {
namespace {

Result<void> suits(const KernelInterface& interface, const KernelWireOptions& options) {
  const std::string& name = interface.name;
  const std::uint32_t most = std::min<std::uint32_t>(interface.mtu_bytes, kXdpMaxMtuBytes);
  if (options.mtu_bytes > most)
    return error("transport.mtu_bytes is {} but {} takes packets of {} over AF_XDP: set at most {}{}",
                 options.mtu_bytes, name, most, most,
                 most < kXdpMaxMtuBytes ? fmt::format(", or 'ip link set dev {} mtu {}'", name,
                                                      std::min(options.mtu_bytes, kXdpMaxMtuBytes))
                                        : " (a frame must fit a page)");
  if (const unsigned queues = std::min(interface.receive_queues, interface.send_queues);
      queues < options.proxies)
    return error(
        "{} has {} and {} proxies need one each: set proxies to at most {}, or give it more ('ethtool -L {} combined {}'; "
        "a veth: 'ethtool -L {} rx {} tx {}')",
        name, queues == 1 ? "one queue" : fmt::format("{} queues", queues), options.proxies, queues, name,
        options.proxies, name, options.proxies, options.proxies);
  return {};
}

}  // namespace

Result<KernelWire> open_xdp_wire(const KernelWireOptions& options,
                                 const std::shared_ptr<SocketWaker>& waker) {
  const Result<KernelInterface> interface = find_interface(options.own);
  if (!interface) return interface.error();
  if (const Result<void> r = suits(*interface, options); !r) return r.error();
  Result<std::unique_ptr<XdpProgram>> loaded =
      XdpProgram::load({options.own, options.first_port, options.proxies}, interface->receive_queues);
  if (!loaded) return error("{}: {}", interface->name, loaded.error().text);
  const std::shared_ptr<XdpProgram> program(std::move(*loaded));
  const Result<std::shared_ptr<KernelPaths>> paths = follow_paths(*interface, options);
  if (!paths) return paths.error();
  // Until a queue is served, its frames go to the kernel.
  if (const Result<void> r = program->attach(interface->name); !r) return r.error();
  KernelWire wire;
  wire.mac = interface->mac;
  for (unsigned q = 0; q < interface->receive_queues; ++q) {
    Result<std::unique_ptr<XdpQueue>> queue =
        XdpQueue::open({interface->name, q, q % options.proxies, options.mtu_bytes + kEthernetHeaderBytes},
                       *paths, program, waker);
    if (!queue) return queue.error();
    wire.queues.push_back(std::move(*queue));
  }
  return wire;
}

}  // namespace braid::proxy
