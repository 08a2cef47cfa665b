#include "sim/virtual_config.h"

#include <fmt/core.h>

namespace braid::sim {

namespace {

constexpr unsigned kFirstNetwork = 98;
constexpr unsigned kPrefixBits = 16;

// No host has the number 0.
unsigned host_number(Station station) {
  return station.cluster + 1;
}

proxy::PeerConfig peer_config(const VirtualClusters& clusters, unsigned peer, unsigned station) {
  const auto mac = [&](unsigned ni) { return clusters.static_macs ? mac_of({station, ni}) : std::string(); };
  proxy::PeerConfig p;
  p.cluster = static_cast<std::uint16_t>(peer);
  p.proxies = clusters.proxies[peer];
  p.address = address_of({station, 0});
  p.mac = mac(0);
  p.udp_port = kUdpPortBase;
  for (std::uint16_t ni = 1; ni < clusters.nis; ++ni)
    p.more_nis.push_back({address_of({station, ni}), mac(ni), ni});
  return p;
}

}  // namespace

std::string address_of(Station station) {
  const unsigned host = host_number(station);
  return fmt::format("10.{}.{}.{}", kFirstNetwork + station.ni, host >> 8, host & 0xff);
}

std::string mac_of(Station station) {
  const unsigned host = host_number(station);
  return fmt::format("02:62:72:{:02x}:{:02x}:{:02x}", kFirstNetwork + station.ni, host >> 8, host & 0xff);
}

std::optional<Station> station_of(ByteView frame) {
  if (frame.size() < 6) return std::nullopt;
  const auto octet = [&](std::size_t i) { return std::to_integer<unsigned>(frame[i]); };
  const unsigned host = octet(4) << 8 | octet(5);
  if (octet(0) != 0x02 || octet(1) != 0x62 || octet(2) != 0x72 || octet(3) < kFirstNetwork || host == 0)
    return std::nullopt;
  return Station{host - 1, octet(3) - kFirstNetwork};
}

proxy::NodeConfig virtual_node_config(const VirtualClusters& clusters, unsigned cluster) {
  const auto station = [&](unsigned c) { return clusters.stations.empty() ? c : clusters.stations[c]; };
  proxy::NodeConfig n;
  n.cluster = static_cast<std::uint16_t>(cluster);
  n.clusters = static_cast<std::uint16_t>(clusters.proxies.size());
  n.proxies = clusters.proxies[cluster];
  n.address = address_of({station(cluster), 0});
  n.mac = mac_of({station(cluster), 0});
  n.udp_port = kUdpPortBase;
  n.listen_address = "@none";
  n.transport = clusters.transport;
  n.security.mode = settings::SecurityMode::kOff;  // nobody else is on a simulated link
  for (unsigned ni = 0; ni < clusters.nis; ++ni) {
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kEthdev;
    link.device = "simulated";  // the driver makes its queues
    link.address = address_of({station(cluster), ni});
    link.mac = mac_of({station(cluster), ni});
    link.prefix_bits = kPrefixBits;
    n.links.push_back(link);
  }
  for (unsigned peer = 0; peer < clusters.proxies.size(); ++peer)
    if (peer != cluster) n.peers.push_back(peer_config(clusters, peer, station(peer)));
  return n;
}

}  // namespace braid::sim
