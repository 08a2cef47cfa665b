#include "proxy/xdp/xdp_wire.h"

#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/interfaces.h"
#include "proxy/xdp/kernel_paths.h"
#include "proxy/xdp/xdp_program.h"
#include "proxy/xdp/xdp_queue.h"

namespace braid::proxy {
namespace {

constexpr Duration kPatience = Duration::s(1);

struct InterfaceState {
  bool is_up = false;
  bool is_ethernet = false;
  unsigned mtu_bytes = 0;
  stack::MacAddress mac;
  unsigned receive_queues = 1;
  unsigned send_queues = 1;
};

// What is not known stays as above.
InterfaceState state_of(const std::string& interface) {
  InterfaceState state;
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return state;
  ifreq request{};
  const auto ask = [&](unsigned long what) {
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    return ::ioctl(socket, what, &request) == 0;
  };
  state.is_up = ask(SIOCGIFFLAGS) && (request.ifr_flags & IFF_UP) != 0;
  if (ask(SIOCGIFMTU)) state.mtu_bytes = static_cast<unsigned>(request.ifr_mtu);
  if (ask(SIOCGIFHWADDR)) {
    state.is_ethernet = request.ifr_hwaddr.sa_family == ARPHRD_ETHER;
    state.mac = stack::MacAddress::load(reinterpret_cast<const std::byte*>(request.ifr_hwaddr.sa_data));
  }
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (ask(SIOCETHTOOL)) {
    state.receive_queues = std::max(1u, channels.rx_count + channels.combined_count);
    state.send_queues = std::max(1u, channels.tx_count + channels.combined_count);
  }
  ::close(socket);
  return state;
}

Result<void> suits(const InterfaceState& state, const std::string& interface, const XdpWireOptions& options) {
  if (!state.is_ethernet)
    return error("{} ({}) is no Ethernet interface, which AF_XDP needs; take udp", interface,
                 options.own.to_string());
  if (!state.is_up) return error("{} is down: 'ip link set dev {} up'", interface, interface);
  const std::uint32_t most = std::min<std::uint32_t>(state.mtu_bytes, kXdpMaxMtuBytes);
  if (options.mtu_bytes > most)
    return error("transport.mtu_bytes is {} but {} takes packets of {} over AF_XDP: set at most {}{}",
                 options.mtu_bytes, interface, most, most,
                 most < kXdpMaxMtuBytes ? fmt::format(", or 'ip link set dev {} mtu {}'", interface,
                                                      std::min(options.mtu_bytes, kXdpMaxMtuBytes))
                                        : " (a frame must fit a page)");
  if (const unsigned queues = std::min(state.receive_queues, state.send_queues); queues < options.proxies)
    return error(
        "{} has {} and {} proxies need one each: set proxies to at most {}, or give it more ('ethtool -L {} combined {}'; "
        "a veth: 'ethtool -L {} rx {} tx {}')",
        interface, queues == 1 ? "one queue" : fmt::format("{} queues", queues), options.proxies, queues,
        interface, options.proxies, interface, options.proxies, options.proxies);
  return {};
}

}  // namespace

Result<XdpWire> open_xdp_wire(const XdpWireOptions& options, const std::shared_ptr<SocketWaker>& waker) {
  const std::string interface = interface_with(options.own.to_string());
  if (interface.empty())
    return error("this host has no address {}; see 'ip address'", options.own.to_string());
  const InterfaceState state = state_of(interface);
  if (const Result<void> r = suits(state, interface, options); !r) return r.error();
  Result<std::unique_ptr<XdpProgram>> loaded =
      XdpProgram::load({options.own, options.first_port, options.proxies}, state.receive_queues);
  if (!loaded) return error("{}: {}", interface, loaded.error().text);
  const std::shared_ptr<XdpProgram> program(std::move(*loaded));
  KernelPathsOptions ways{interface, options.own, options.first_port, options.proxies, {}};
  for (const stack::Ipv4Address peer : options.peers)
    if (std::find(ways.peers.begin(), ways.peers.end(), peer) == ways.peers.end()) ways.peers.push_back(peer);
  const Result<std::shared_ptr<KernelPaths>> paths = KernelPaths::start(ways, kPatience);
  if (!paths) return paths.error();
  // Until a queue is served, its frames go to the kernel.
  if (const Result<void> r = program->attach(interface); !r) return r.error();
  XdpWire wire;
  wire.mac = state.mac;
  for (unsigned q = 0; q < state.receive_queues; ++q) {
    Result<std::unique_ptr<XdpQueue>> queue =
        XdpQueue::open({interface, q, q % options.proxies, options.mtu_bytes + kEthernetHeaderBytes}, *paths,
                       program, waker);
    if (!queue) return queue.error();
    wire.queues.push_back(std::move(*queue));
  }
  return wire;
}

}  // namespace braid::proxy
