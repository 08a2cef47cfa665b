// The configurations of nodes in virtual time, and the addresses of their NIs on the virtual network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "proxy/daemon/node_config.h"

namespace braid::sim {

// The UDP port of every node's proxy 0.
inline constexpr std::uint16_t kUdpPortBase = 7700;

// An NI on the virtual network. Its IP address is 10.(98 + ni).(cluster + 1), the last number in 16 bits, and its
// Ethernet address has the same three numbers: NI k of every cluster is on network k.
struct Station {
  unsigned cluster = 0;  // number on the network, which may differ from the number in its machine
  unsigned ni = 0;
};
std::string address_of(Station station);
std::string mac_of(Station station);
// The destination of a frame, by its Ethernet address; nullopt: none of these stations, or all of them.
std::optional<Station> station_of(ByteView frame);

// The clusters of one machine.
struct VirtualClusters {
  std::vector<std::uint16_t> proxies;  // by cluster
  // By cluster: its number on the network. Empty: equal to its number in the machine.
  std::vector<unsigned> stations = {};
  unsigned nis = 1;         // of each cluster
  bool static_macs = true;  // peers' Ethernet addresses are configured; otherwise ARP finds them
  proxy::TransportConfig transport = {};
};

// Everything but the seed and the caller's own choices.
// There is no control socket: clients are in this process.
proxy::NodeConfig virtual_node_config(const VirtualClusters& clusters, unsigned cluster);

}  // namespace braid::sim
