#include "sim/virtual_config.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <set>

namespace braid::sim {
namespace {

// The start of a frame to this Ethernet address.
std::array<std::byte, 6> frame_to(const std::string& mac) {
  std::array<unsigned, 6> octets{};
  EXPECT_EQ(std::sscanf(mac.c_str(), "%x:%x:%x:%x:%x:%x", &octets[0], &octets[1], &octets[2], &octets[3],
                        &octets[4], &octets[5]),
            6);
  std::array<std::byte, 6> frame{};
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(octets[i]);
  return frame;
}

TEST(VirtualConfig, EveryNiOf1024ClustersHasAddressesOfItsOwn) {
  std::set<std::string> addresses;
  for (unsigned cluster = 0; cluster < 1024; ++cluster) {
    for (const unsigned ni : {0u, 1u, 31u}) {
      EXPECT_TRUE(addresses.insert(address_of({cluster, ni})).second);
      const std::optional<Station> station = station_of(frame_to(mac_of({cluster, ni})));
      ASSERT_TRUE(station.has_value());
      EXPECT_EQ(station->cluster, cluster);
      EXPECT_EQ(station->ni, ni);
    }
  }
}

TEST(VirtualConfig, BroadcastUnknownAndShortDestinationsAreNoStation) {
  for (const char* const mac :
       {"ff:ff:ff:ff:ff:ff", "02:62:73:62:00:01", "02:62:72:61:00:01", "02:62:72:62:00:00"})
    EXPECT_FALSE(station_of(frame_to(mac)).has_value()) << mac;
  EXPECT_FALSE(station_of({}).has_value());
}

TEST(VirtualConfig, MachinesOnOneNetworkHaveTheirOwnClusterNumbers) {
  VirtualClusters clusters;
  clusters.proxies = {2, 3};
  clusters.stations = {4, 7};
  clusters.nis = 2;
  const proxy::NodeConfig node = virtual_node_config(clusters, 1);
  EXPECT_EQ(node.cluster, 1);
  EXPECT_EQ(node.clusters, 2);
  EXPECT_EQ(node.proxies, 3);
  EXPECT_EQ(node.address, address_of({7, 0}));
  ASSERT_EQ(node.links.size(), 2u);
  EXPECT_EQ(node.links[1].address, address_of({7, 1}));
  ASSERT_EQ(node.peers.size(), 1u);
  EXPECT_EQ(node.peers[0].cluster, 0);
  EXPECT_EQ(node.peers[0].proxies, 2);
  EXPECT_EQ(node.peers[0].mac, mac_of({4, 0}));
  ASSERT_EQ(node.peers[0].more_nis.size(), 1u);
}

TEST(VirtualConfig, WithoutStaticMacsPeersAreFoundByArp) {
  VirtualClusters clusters;
  clusters.proxies = {1, 1};
  clusters.static_macs = false;
  const proxy::NodeConfig node = virtual_node_config(clusters, 0);
  EXPECT_EQ(node.peers[0].mac, "");
  EXPECT_EQ(node.mac, mac_of({0, 0}));
}

}  // namespace
}  // namespace braid::sim
