#include "stack/stack_config.h"

#include <gtest/gtest.h>

namespace braid::stack {
namespace {

// Proxy 0 of cluster 1 with two links; remotes are added by each test.
StackConfig two_links() {
  StackConfig c;
  c.local = {ClusterId(1), ProxyId(0)};
  c.interfaces = {{Ipv4Address(10, 0, 0, 1), MacAddress(2, 0, 0, 0, 0, 1)},
                  {Ipv4Address(10, 1, 0, 1), MacAddress(2, 0, 0, 0, 1, 1)}};
  return c;
}
RemoteStack remote(std::uint16_t cluster, std::uint16_t link) {
  RemoteStack r;
  r.id = {ClusterId(cluster), ProxyId(0)};
  r.address = Ipv4Address(10, static_cast<std::uint8_t>(link), 0, 2);
  r.link = LinkId(link);
  return r;
}

TEST(StackConfig, ProxyZeroAnnouncesWhereARemoteIsFoundByArp) {
  StackConfig c = two_links();
  c.remotes = {remote(2, 0), remote(3, 1)};
  c.remotes[1].mac = MacAddress(2, 0, 0, 0, 1, 3);
  std::vector<LocalLink> links = local_links(c);
  ASSERT_EQ(links.size(), 2u);
  for (std::uint16_t i = 0; i < 2; ++i) {
    EXPECT_EQ(links[i].link, LinkId(i));
    EXPECT_EQ(links[i].mac, c.interfaces[i].mac);
    EXPECT_EQ(links[i].address, c.interfaces[i].address);
  }
  EXPECT_TRUE(links[0].announce);
  EXPECT_FALSE(links[1].announce) << "its only remote is a static neighbour";
  c.local.proxy = ProxyId(1);
  links = local_links(c);
  EXPECT_FALSE(links[0].announce) << "one proxy announces for the whole node";
}

TEST(StackConfig, NeighboursHaveRoomForTwiceTheRemotes) {
  StackConfig c = two_links();
  const std::uint32_t least = NeighboursConfig().capacity;
  EXPECT_EQ(neighbours_config(c).capacity, least);
  c.remotes.assign(least, remote(2, 0));
  EXPECT_EQ(neighbours_config(c).capacity, 2 * least);
}

TEST(StackConfig, SenderHasLongPacketsOnlyWithFragmentationByIp) {
  StackConfig c = two_links();
  c.mtu_bytes = 9000;
  c.outgoing_packets = 7;
  c.arp_timeout = 2_s;
  c.proxies = 3;
  IpSenderConfig sender = sender_config(c);
  EXPECT_EQ(sender.mtu_bytes, 9000u);
  EXPECT_EQ(sender.queued_packets, 7u);
  EXPECT_EQ(sender.arp_timeout, 2_s);
  EXPECT_EQ(sender.proxies, 3u);
  EXPECT_FALSE(sender.long_packets);
  c.fragmentation = Fragmentation::kIp;
  EXPECT_TRUE(sender_config(c).long_packets);
}

TEST(StackConfig, WithFragmentationByTheTransportAPacketFitsTheMtu) {  // SC-6
  StackConfig c = two_links();
  EXPECT_EQ(max_payload_bytes(c), 1500u - 20 - 8);
  c.mtu_bytes = kMinMtuBytes;
  EXPECT_EQ(max_payload_bytes(c), 576u - 20 - 8);
}

TEST(StackConfig, WithFragmentationByIpAPacketHasAPieceOrEightFragments) {  // IP-3
  StackConfig c = two_links();
  c.fragmentation = Fragmentation::kIp;
  c.mtu_bytes = 9000;
  EXPECT_EQ(max_payload_bytes(c), kMaxPacketHeaderBytes + kPartRecordBytes + kMaxPieceBytes);
  c.mtu_bytes = 1500;
  EXPECT_EQ(max_payload_bytes(c), 8u * 1480 - 8) << "the UDP header is in the first fragment";
  c.mtu_bytes = kMinMtuBytes;
  EXPECT_EQ(max_payload_bytes(c), 8u * 552 - 8) << "fragments are multiples of 8 bytes";
}

TEST(StackConfig, EndsHaveTheIdsOfTheirStacks) {
  StackConfig c = two_links();
  c.sub_connection.shared_hash = 0x5a5a;
  c.sub_connection.window_packets = 99;
  RemoteStack r = remote(2, 0);
  r.incarnation = 77;
  r.wanted_source_port = 49152;
  const SubConnectionConfig sub = sub_connection_config(c, r);
  EXPECT_EQ(sub.local, c.local);
  EXPECT_EQ(sub.remote, r.id);
  EXPECT_EQ(sub.shared_hash, 0x5a5au);
  EXPECT_EQ(sub.incarnation, 77u);
  EXPECT_EQ(sub.wanted_source_port, 49152);
  EXPECT_EQ(sub.max_payload_bytes, max_payload_bytes(c));
  EXPECT_EQ(sub.window_packets, 99u) << "the rest is the configuration's";
}

TEST(StackConfig, RemoteOfAnotherMachineHasNamesAndAHashOfItsOwn) {
  StackConfig c = two_links();
  c.sub_connection.shared_hash = 0x5a5a;
  RemoteStack r = remote(2, 0);
  r.names = RemoteStack::Names{
      .us = {ClusterId(7), ProxyId(0)}, .it = {ClusterId(0), ProxyId(1)}, .shared_hash = 0x1234};
  const SubConnectionConfig sub = sub_connection_config(c, r);
  EXPECT_EQ(sub.local, r.names->us);
  EXPECT_EQ(sub.remote, r.names->it);
  EXPECT_EQ(sub.shared_hash, 0x1234u);
}

TEST(StackConfigDeathTest, StackThatCannotBeIsRefused) {
  StackConfig right = two_links();
  right.remotes = {remote(2, 1)};
  check(right);
  StackConfig c = right;
  c.interfaces.clear();
  EXPECT_DEATH(check(c), "interfaces");
  c = right;
  c.mtu_bytes = kMinMtuBytes - 1;
  EXPECT_DEATH(check(c), "mtu_bytes");
  c = right;
  c.remotes[0].link = LinkId(2);
  EXPECT_DEATH(check(c), "link");
  c = right;
  c.remotes[0].id.cluster = ClusterId(kMaxClusters);
  EXPECT_DEATH(check(c), "cluster");
  c = right;
  c.remotes[0].id.proxy = ProxyId(kMaxProxiesPerCluster);
  EXPECT_DEATH(check(c), "proxy");
}

}  // namespace
}  // namespace braid::stack
