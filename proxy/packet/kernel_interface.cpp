#include "proxy/packet/kernel_interface.h"

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

#include "base/interfaces.h"

namespace braid::proxy {
namespace {

constexpr Duration kPatience = Duration::s(1);

}  // namespace

Result<KernelInterface> find_interface(stack::Ipv4Address own) {
  KernelInterface interface {
    .name = interface_with(own.to_string()), .mac = {}
  };
  if (interface.name.empty()) return error("this host has no address {}; see 'ip address'", own.to_string());
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return error("a socket that asks for {}: {}", interface.name, std::strerror(errno));
  ifreq request{};
  const auto ask = [&](unsigned long what) {
    interface.name.copy(request.ifr_name, IFNAMSIZ - 1);
    return ::ioctl(socket, what, &request) == 0;
  };
  const bool is_up = ask(SIOCGIFFLAGS) && (request.ifr_flags & IFF_UP) != 0;
  if (ask(SIOCGIFMTU)) interface.mtu_bytes = static_cast<unsigned>(request.ifr_mtu);
  bool is_ethernet = false;
  if (ask(SIOCGIFHWADDR)) {
    is_ethernet = request.ifr_hwaddr.sa_family == ARPHRD_ETHER;
    interface.mac = stack::MacAddress::load(reinterpret_cast<const std::byte*>(request.ifr_hwaddr.sa_data));
  }
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (ask(SIOCETHTOOL)) {
    interface.receive_queues = std::max(1u, channels.rx_count + channels.combined_count);
    interface.send_queues = std::max(1u, channels.tx_count + channels.combined_count);
  }
  ::close(socket);
  if (!is_ethernet)
    return error("{} ({}) is no Ethernet interface, which this wire needs; take udp", interface.name,
                 own.to_string());
  if (!is_up) return error("{} is down: 'ip link set dev {} up'", interface.name, interface.name);
  return interface;
}

Result<std::shared_ptr<KernelPaths>> follow_paths(const KernelInterface& interface,
                                                  const KernelWireOptions& options) {
  KernelPathsOptions ways{interface.name, options.own, options.first_port, options.proxies, {}};
  for (const stack::Ipv4Address peer : options.peers)
    if (std::find(ways.peers.begin(), ways.peers.end(), peer) == ways.peers.end()) ways.peers.push_back(peer);
  return KernelPaths::start(ways, kPatience);
}

}  // namespace braid::proxy
