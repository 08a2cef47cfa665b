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
  unsigned cluster = 0;  // of all on the network, whatever its own machine calls it
  unsigned ni = 0;
};
std::string address_of(Station station);
std::string mac_of(Station station);
// Where a frame goes, by its Ethernet destination; nullopt: to none of these, or to all of them.
std::optional<Station> station_of(ByteView frame);

// The clusters of one machine.
struct VirtualClusters {
  std::vector<std::uint16_t> proxies;  // by cluster
  // By cluster: its number on the network. Empty: the machine's own number, as where there is one machine.
  std::vector<unsigned> stations = {};
  unsigned nis = 1;         // of each cluster
  bool static_macs = true;  // peers' Ethernet addresses are configured; else ARP finds them
  proxy::TransportConfig transport = {};
};

// Everything but the seed and what the caller wants otherwise. Nobody listens at a control socket: clients
// are in this process.
proxy::NodeConfig virtual_node_config(const VirtualClusters& clusters, unsigned cluster);

}  // namespace braid::sim
