// How packets reach remotes: static neighbours, ARP, gateways, and what ICMP reports.
#include "stack/remotes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace braid::stack {
namespace {

constexpr LinkId kLan(0), kPoint(1);
constexpr MacAddress kOurMac(2, 0, 0, 0, 0, 1), kTheirMac(2, 0, 0, 0, 0, 2), kNewMac(2, 0, 0, 0, 0, 3);
constexpr Ipv4Address kGateway(10, 0, 0, 254), kNear(10, 0, 0, 2), kFar(192, 168, 0, 2);
constexpr std::uint16_t kBase = 7700, kAsked = first_steered_port(0) + 5;

Instant at(Duration d) {
  return Instant::from_ns(1'000'000'000) + d;
}

RemoteStack remote(std::uint16_t cluster, Ipv4Address address, LinkId link = kLan) {
  RemoteStack r;
  r.id = {ClusterId(cluster), ProxyId(0)};
  r.address = address;
  r.udp_port = kBase;
  r.link = link;
  return r;
}

struct RemotesTest : testing::Test {
  RemotesTest() { remotes.reserve(4); }

  // The station answers the request that a lookup began.
  void answer(LinkId link, Ipv4Address address, const MacAddress& mac, Instant now) {
    ArpPacket reply{.operation = ArpOperation::kReply,
                    .sender_mac = mac,
                    .sender_ip = address,
                    .target_mac = kOurMac,
                    .target_ip = links[link.value()].address};
    EXPECT_EQ(neighbours.on_arp(now, link, reply), ArpArrival::kLearned);
  }
  // The UDP source port of the packets of a route.
  std::uint16_t source_port(std::size_t index) const {
    std::array<std::byte, kFlowHeaderBytes> bytes{};
    remotes[index].header.write(bytes.data(), 0, 0);
    return load_be<std::uint16_t>(bytes.data() + kEthernetHeaderBytes + kIpv4HeaderBytes);
  }

  std::vector<Interface> links{{Ipv4Address(10, 0, 0, 1), kOurMac, 24, kGateway},
                               {Ipv4Address(10, 1, 0, 1), kOurMac, 24, std::nullopt}};
  std::vector<LocalLink> local{{kLan, kOurMac, links[0].address}, {kPoint, kOurMac, links[1].address}};
  UdpPorts ports{kBase, 0, 1};
  Neighbours neighbours{NeighboursConfig{}, local};
  Remotes remotes{links, ports};
};

TEST_F(RemotesTest, StaticNeighbourNeedsOneLookupOnly) {
  RemoteStack r = remote(1, kNear);
  r.mac = kTheirMac;
  remotes.add(r);
  EXPECT_FALSE(remotes[0].is_ready(0));
  ASSERT_TRUE(remotes.resolve(0, 0, neighbours, at(0_s)));
  EXPECT_TRUE(remotes[0].is_ready(0));
  EXPECT_EQ(remotes[0].header.to(), kTheirMac);
  EXPECT_EQ(neighbours.size(), 0u);
}

TEST_F(RemotesTest, RequestedSourcePortIsInTheHeaders) {  // SC-12
  RemoteStack r = remote(1, kNear);
  r.mac = kTheirMac;
  remotes.add(r);
  ASSERT_TRUE(remotes.resolve(0, 0, neighbours, at(0_s)));
  EXPECT_EQ(source_port(0), kBase);
  EXPECT_FALSE(remotes[0].is_ready(kAsked));
  ASSERT_TRUE(remotes.resolve(0, kAsked, neighbours, at(0_s)));
  EXPECT_TRUE(remotes[0].is_ready(kAsked));
  EXPECT_EQ(source_port(0), kAsked);
}

TEST_F(RemotesTest, LearnedNeighbourIsLookedUpForEachPacket) {  // ARP-1
  remotes.add(remote(1, kNear));
  EXPECT_FALSE(remotes.resolve(0, 0, neighbours, at(0_s)));
  answer(kLan, kNear, kTheirMac, at(0_s));
  ASSERT_TRUE(remotes.resolve(0, 0, neighbours, at(0_s)));
  EXPECT_EQ(remotes[0].header.to(), kTheirMac);
  EXPECT_FALSE(remotes[0].is_ready(0)) << "it may move to another station";
}

TEST_F(RemotesTest, RemoteBeyondThePrefixIsReachedThroughTheGateway) {  // ARP-2
  remotes.add(remote(1, kFar));
  EXPECT_EQ(remotes[0].next_hop, kGateway);
  EXPECT_FALSE(remotes.resolve(0, 0, neighbours, at(0_s)));
  EXPECT_EQ(neighbours.state(kLan, kGateway), NeighbourState::kAsking);
  EXPECT_EQ(neighbours.state(kLan, kFar), NeighbourState::kAbsent);
}

TEST_F(RemotesTest, ReplacedRemoteIsLookedUpAnew) {
  RemoteStack absent = remote(1, {});
  absent.absent = true;
  remotes.add(absent);
  RemoteStack r = remote(1, kNear);
  r.mac = kTheirMac;
  ASSERT_TRUE(remotes.replace(0, r));
  EXPECT_EQ(remotes[0].remote.address, kNear);
  EXPECT_FALSE(remotes.resolve(0, 0, neighbours, at(0_s))) << "it has no static neighbour";
}

TEST_F(RemotesTest, RemoteThatItsLinkDoesNotLeadToChangesNothing) {
  remotes.add(remote(1, Ipv4Address(10, 1, 0, 2), kPoint));
  EXPECT_FALSE(remotes.replace(0, remote(1, kFar, kPoint)));
  EXPECT_EQ(remotes[0].remote.address, Ipv4Address(10, 1, 0, 2));
}

TEST_F(RemotesTest, HopIsThatOfARemoteElseOfALinkElseOfAGateway) {  // ARP-2
  remotes.add(remote(1, kFar));
  ASSERT_TRUE(remotes.hop_to(kFar));
  EXPECT_EQ(remotes.hop_to(kFar)->next, kGateway);
  ASSERT_TRUE(remotes.hop_to(Ipv4Address(10, 1, 0, 9)));
  EXPECT_EQ(remotes.hop_to(Ipv4Address(10, 1, 0, 9))->link, kPoint);
  EXPECT_EQ(remotes.hop_to(Ipv4Address(10, 1, 0, 9))->next, Ipv4Address(10, 1, 0, 9));
  EXPECT_EQ(remotes.hop_to(Ipv4Address(8, 8, 8, 8))->next, kGateway);
  links[0].gateway.reset();
  EXPECT_FALSE(remotes.hop_to(Ipv4Address(8, 8, 8, 8)));
}

TEST_F(RemotesTest, UnreachableReportBelongsToTheRemoteOfThatLinkAndPort) {  // IC-3
  remotes.add(remote(1, kNear));
  remotes.add(remote(2, Ipv4Address(10, 1, 0, 2), kPoint));
  EXPECT_FALSE(remotes.on_unreachable(kPoint, {kNear, kBase}, Unreachable::kHost, 0));
  EXPECT_FALSE(remotes.on_unreachable(kLan, {kNear, kBase + 1}, Unreachable::kHost, 0));
  EXPECT_EQ(remotes.on_unreachable(kLan, {kNear, kBase}, Unreachable::kTooBig, 1400), 0u);
  EXPECT_EQ(remotes.on_unreachable(kLan, {kNear, kBase}, Unreachable::kPort, 0), 0u);
  EXPECT_EQ(remotes[0].report.unreachables, 2u);
  EXPECT_EQ(remotes[0].report.reason, Unreachable::kPort);
  EXPECT_EQ(remotes[0].report.mtu_bytes, 1400u) << "the last that was reported";
  EXPECT_EQ(remotes[1].report.unreachables, 0u);
}

TEST_F(RemotesTest, RouteThatWaitsForArpIsNotDue) {
  Agenda agenda(2);
  Agenda::Entry first = agenda.entry(0), second = agenda.entry(1);
  first.set_due(at(1_s));
  second.set_due(at(2_s));
  remotes.add(remote(1, kNear));
  remotes.add(remote(2, Ipv4Address(10, 0, 0, 3)));
  EXPECT_EQ(remotes.next_due(agenda), at(1_s));
  EXPECT_FALSE(remotes.resolve(0, 0, neighbours, at(0_s)));
  EXPECT_EQ(remotes.next_due(agenda), at(2_s));
  EXPECT_EQ(remotes.next_due(agenda), at(2_s)) << "it still waits";
  answer(kLan, kNear, kNewMac, at(0_s));
  ASSERT_TRUE(remotes.resolve(0, 0, neighbours, at(0_s)));
  EXPECT_EQ(remotes.next_due(agenda), at(1_s));
}

}  // namespace
}  // namespace braid::stack
