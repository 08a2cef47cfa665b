// The configuration of one of two nodes that only know each other: what the benches over one wire have in
// common. The caller adds the link.
#pragma once

#include <fmt/core.h>

#include <cstdint>

#include "proxy/daemon/node_config.h"
#include "proxy/udp/udp_frames.h"

namespace braid::bench {

// Node `cluster` (0 or 1), inside a process: no other process can attach to it.
inline proxy::NodeConfig one_of_two_nodes(std::uint16_t cluster, std::uint32_t mtu_bytes) {
  const auto address = [](int of) { return fmt::format("10.98.{}.1", of); };
  const auto mac = [](int of) { return fmt::format("02:62:72:64:00:0{}", of); };
  proxy::NodeConfig c;
  c.cluster = cluster;
  c.clusters = 2;
  c.address = address(cluster);
  c.mac = mac(cluster);
  proxy::PeerConfig peer;
  peer.cluster = static_cast<std::uint16_t>(1 - cluster);
  peer.address = address(1 - cluster);
  peer.udp_port = 7700;
  peer.mac = mac(1 - cluster);
  c.peers.push_back(peer);
  c.transport.mtu_bytes = mtu_bytes;
  c.listen_address = "@none";
  return c;
}

// The two have these addresses instead.
inline void use_addresses(proxy::NodeConfig& c, stack::Ipv4Address own, stack::Ipv4Address peer) {
  c.address = own.to_string();
  c.mac = proxy::station_of(own).to_string();
  c.peers[0].address = peer.to_string();
  c.peers[0].mac = proxy::station_of(peer).to_string();
}

// Its end of a wire that both map.
inline proxy::LinkConfig end_of_wire(std::uint16_t cluster, int fd) {
  proxy::LinkConfig link;
  link.fd = fd;
  link.first_side = cluster == 0;
  return link;
}

}  // namespace braid::bench
