// Whole stacks and the frames between them: finding each other, taking what is theirs, counting the rest.
#include "stack/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"
#include "tests/stack/forged_hellos.h"
#include "two_stacks.h"

namespace braid::stack {
namespace {

using What = Stack::Received::What;

bool is_arp(const Bytes& frame) {
  return load_be<std::uint16_t>(frame.data() + 12) == 0x0806;
}

// Two clusters of one proxy each, connected, and a frame that carries a message to b.
struct Connected {
  explicit Connected(std::uint16_t proxies = 1)
      : a(wire.add(stack_config(0, 2, false, proxies))), b(wire.add(stack_config(1, 2, false, proxies))) {
    wire.run_for(10_ms);
    EXPECT_TRUE(a.stack->all_established());
    EXPECT_TRUE(b.stack->all_established());
    a.send(ClusterId(1), 100, 7);
    frame.resize(a.stack->frame_bytes());
    frame.resize(a.stack->poll_transmit(wire.now, kWire, frame));
    EXPECT_GT(frame.size(), 100u);
    before = b.stack->stats();
  }
  // A header further in was changed: its checksums are right again.
  static Bytes mended(Bytes f) {
    const MutableBytes ip = MutableBytes(f).subspan(14);
    store(ip.data() + 10, std::uint16_t{0});
    store(ip.data() + 10, checksum_field(checksum_add(0, ip.first(20))));
    const auto source = Ipv4Address::load(ip.data() + 12);
    const auto destination = Ipv4Address::load(ip.data() + 16);
    const MutableBytes udp = ip.subspan(20);
    write_udp(udp,
              {.source = source,
               .destination = destination,
               .source_port = load_be<std::uint16_t>(udp.data()),
               .destination_port = load_be<std::uint16_t>(udp.data() + 2),
               .payload_bytes = udp.size() - 8},
              checksum_add(0, udp.subspan(8)));
    return f;
  }

  Wire wire;
  TestStack& a;
  TestStack& b;
  Bytes frame;
  StackStats before;
};

constexpr std::size_t kIp = kEthernetHeaderBytes;
constexpr std::size_t kUdp = kIp + 20;
constexpr std::size_t kPacket = kUdp + 8;

TEST(Stack, StacksResolveEachOtherByArpAndExchangeMessages) {
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  TestStack& b = wire.add(stack_config(1, 2, true));
  const auto& to_b = a.send(ClusterId(1), 5000, 1);
  const auto& short_to_b = a.send(ClusterId(1), 50, 2);
  const auto& to_a = b.send(ClusterId(0), 64, 3);
  wire.run_for(20_ms);
  EXPECT_TRUE(a.stack->all_established());
  EXPECT_TRUE(to_b.finished);
  EXPECT_TRUE(short_to_b.finished);
  EXPECT_TRUE(to_a.finished);
  EXPECT_EQ(a.delivered, (std::vector<Bytes>{to_a.content}));
  EXPECT_EQ(b.delivered, (std::vector<Bytes>{short_to_b.content})) << "the other came in parts";
  EXPECT_TRUE(
      std::any_of(wire.left.begin(), wire.left.end(), [](const Wire::Frame& f) { return is_arp(f.bytes); }));
}

// Two stacks, each with a secret (by its first byte) or none; the counters of the first.
StackStats refusals_between(std::optional<int> ours, std::optional<int> theirs) {
  Wire wire;
  for (const int i : {0, 1}) {
    StackConfig c = stack_config(static_cast<std::uint16_t>(i), 2);
    if (const std::optional<int> secret = i == 0 ? ours : theirs) {
      KeyBytes bytes{static_cast<std::byte>(*secret)};
      c.sub_connection.security.secret = std::make_shared<const Secret>(bytes);
      c.sub_connection.security.seed[0] = static_cast<std::byte>(i);
    }
    wire.add(c);
  }
  wire.run_for(1_s);
  EXPECT_EQ(wire.stacks[0]->stack->all_established(), ours == theirs);
  const Refusal why = wire.stacks[0]->stack->refused_sender();
  const StackStats stats = wire.stacks[0]->stack->stats();
  EXPECT_EQ(why == Refusal::kNoSecret, stats.refused_no_secret > 0);
  EXPECT_EQ(why == Refusal::kOtherSecret, stats.refused_other_secret > 0);
  EXPECT_EQ(why == Refusal::kUnexpectedSecret, stats.refused_sealed > 0);
  return stats;
}

TEST(Stack, RefusedSendersAreCountedByTheirReason) {  // SE-2
  const auto counted = [](const StackStats& s) {
    return std::vector<bool>{s.refused_no_secret > 3, s.refused_other_secret > 3, s.refused_sealed > 3};
  };
  EXPECT_EQ(counted(refusals_between(1, 1)), (std::vector{false, false, false}));
  EXPECT_EQ(counted(refusals_between({}, {})), (std::vector{false, false, false}));
  EXPECT_EQ(counted(refusals_between(1, {})), (std::vector{true, false, false}));
  EXPECT_EQ(counted(refusals_between(1, 2)), (std::vector{false, true, false}));
  EXPECT_EQ(counted(refusals_between({}, 2)), (std::vector{false, false, true}));
}

void add_sealed_pair(Wire& wire, bool peers_move = false) {
  for (const std::uint16_t i : {std::uint16_t{0}, std::uint16_t{1}}) {
    StackConfig c = stack_config(i, 2);
    c.interfaces[0].peers_move = peers_move;
    c.sub_connection.security.secret = std::make_shared<const Secret>(KeyBytes{});
    wire.add(c);
  }
}

TEST(Stack, ForgedAndReplayedPacketsAreCounted) {  // SE-5, SE-6
  Wire wire;
  add_sealed_pair(wire);
  wire.run_for(10_ms);
  TestStack& a = *wire.stacks[0];
  TestStack& b = *wire.stacks[1];
  a.send(ClusterId(1), 100, 7);
  Bytes frame(a.stack->frame_bytes());
  frame.resize(a.stack->poll_transmit(wire.now, kWire, frame));
  Bytes forged = frame;
  forged[kPacket + 60] ^= std::byte{1};
  EXPECT_EQ(b.stack->receive(wire.now, kWire, Connected::mended(forged)).what, What::kNothing);
  EXPECT_EQ(b.stack->stats().forged_packets, 1u);
  EXPECT_EQ(b.stack->receive(wire.now, kWire, frame).what, What::kRecords);
  EXPECT_EQ(b.stack->receive(wire.now, kWire, frame).what, What::kNothing);
  EXPECT_EQ(b.stack->stats().replayed_packets, 1u);
  EXPECT_EQ(b.stack->stats().forged_packets, 1u);
}

TEST(Stack, HellosOfEachKindAreReadUpToABound) {  // SE-11
  Wire wire;
  add_sealed_pair(wire);
  wire.run_for(1_s);
  Stack& us = *wire.stacks[0]->stack;
  ForgedHellos forged({ClusterId(1), ProxyId(0)}, {ClusterId(0), ProxyId(0)}, mac_of(0), {ip_of(0), 7700});
  const auto read_of = [&](int count, Ipv4Address from, std::uint64_t names) {
    const std::uint64_t before = us.stats().refused_other_secret;
    for (int i = 0; i < count; ++i)
      (void)us.receive(wire.now, kWire, forged.frame(from, 0xe000u + static_cast<unsigned>(i), names));
    return us.stats().refused_other_secret - before;
  };
  const Ipv4Address elsewhere(10, 0, 0, 77);
  const std::uint64_t our_epoch = us.sub_connections()[0]->epoch();
  EXPECT_EQ(read_of(1000, elsewhere, 0), 256u);
  EXPECT_EQ(read_of(1000, ip_of(1), 0), 256u) << "those from elsewhere do not count here";
  EXPECT_EQ(read_of(1000, elsewhere, our_epoch), 256u) << "nor here";
  EXPECT_EQ(read_of(1000, ip_of(1), our_epoch), 0u);
  EXPECT_EQ(read_of(1000, elsewhere, our_epoch + 1), 0u) << "it only seems to know us";
  EXPECT_EQ(us.stats().hellos_unread, 5000u - 3 * 256u);
  wire.run_for(10_ms);
  EXPECT_EQ(read_of(1000, elsewhere, 0), 40u);
  EXPECT_EQ(read_of(1000, ip_of(1), 0), 40u);
  EXPECT_EQ(read_of(1000, ip_of(1), our_epoch), 40u);
}

// A stack without a secret has no bound, since it hashes nothing.
TEST(Stack, HellosThatCostNoHashAreNotCounted) {  // SE-11
  Wire wire;
  Stack& plain = *wire.add(stack_config(0, 2)).stack;
  ForgedHellos forged({ClusterId(1), ProxyId(0)}, {ClusterId(0), ProxyId(0)}, mac_of(0), {ip_of(0), 7700});
  for (int i = 0; i < 1000; ++i) (void)plain.receive(wire.now, kWire, forged.frame(ip_of(1), 1, 0));
  EXPECT_EQ(plain.stats().refused_sealed, 1000u);
  EXPECT_EQ(plain.stats().hellos_unread, 0u);
}

// The address of one of two stacks is another one for the network than it knows itself, as behind a NAT.
class MovedStack {
 public:
  MovedStack() {
    add_sealed_pair(wire, true);
    wire.change = [this](const Bytes& frame) -> std::vector<Bytes> {
      Bytes changed = frame;
      std::byte* const ip = changed.data() + kEthernetHeaderBytes;
      if (Ipv4Address::load(ip + 12) == ip_of(0)) {
        outside.address.store(ip + 12);
        store_be(ip + 20, outside.port);
      } else {
        const Endpoint to{Ipv4Address::load(ip + 16), load_be<std::uint16_t>(ip + 22)};
        if (to != outside) return {};
        ip_of(0).store(ip + 16);
        store_be(ip + 22, std::uint16_t{7700});
      }
      return {Connected::mended(changed)};
    };
  }
  std::size_t exchange() {
    TestStack& a = *wire.stacks[0];
    TestStack& b = *wire.stacks[1];
    a.send(ClusterId(1), 100, 7);
    b.send(ClusterId(0), 100, 8);
    wire.run_for(1_s);
    return a.delivered.size() + b.delivered.size();
  }
  Endpoint outside{ip_of(0), 7700};
  Wire wire;
};

TEST(Stack, PacketsFollowAPeerThatHasMoved) {  // SE-8
  MovedStack m;
  ASSERT_EQ(m.exchange(), 2u);
  Stack& b = *m.wire.stacks[1]->stack;
  EXPECT_EQ(b.take_address_move(), std::nullopt);
  const Endpoint first = m.outside;
  m.outside = {Ipv4Address(10, 0, 9, 9), 4711};
  EXPECT_EQ(m.exchange(), 4u);
  EXPECT_EQ(b.remote(0).address, m.outside.address);
  EXPECT_EQ(b.remote(0).udp_port, m.outside.port);
  const Endpoint second = m.outside;
  m.outside.port = 4712;
  EXPECT_EQ(m.exchange(), 6u);
  // Nobody has asked meanwhile: one line of the log is enough.
  EXPECT_EQ(b.take_address_move(), (AddressMove{{ClusterId(0), ProxyId(0)}, first, m.outside}));
  EXPECT_EQ(b.take_address_move(), std::nullopt);
  EXPECT_NE(second, m.outside);
  EXPECT_EQ(m.wire.stacks[0]->stack->take_address_move(), std::nullopt);
  EXPECT_EQ(b.sub_connections()[0]->stats().address_moves, 2u);
}

TEST(Stack, PeerBehindANatConnects) {  // SE-10
  MovedStack m;
  m.outside = {Ipv4Address(10, 0, 9, 9), 4711};
  EXPECT_EQ(m.exchange(), 2u);
  EXPECT_EQ(m.wire.stacks[1]->stack->remote(0).address, m.outside.address);
}

TEST(Stack, PeersOfOtherLinksStayWhereTheyAre) {  // SE-8
  Wire wire;
  add_sealed_pair(wire);
  wire.run_for(10_ms);
  wire.change = [](const Bytes& frame) -> std::vector<Bytes> {
    Bytes changed = frame;
    std::byte* const ip = changed.data() + kEthernetHeaderBytes;
    if (Ipv4Address::load(ip + 12) == ip_of(0)) Ipv4Address(10, 0, 9, 9).store(ip + 12);
    return {Connected::mended(changed)};
  };
  wire.stacks[0]->send(ClusterId(1), 100, 7);
  wire.run_for(1_s);
  EXPECT_EQ(wire.stacks[1]->delivered.size(), 1u);
  EXPECT_EQ(wire.stacks[1]->stack->sub_connections()[0]->stats().address_challenges, 0u);
  EXPECT_EQ(wire.stacks[1]->stack->remote(0).address, ip_of(0));
}

TEST(Stack, StaticNeighboursNeedNoArp) {
  Wire wire;
  wire.add(stack_config(0, 2));
  wire.add(stack_config(1, 2));
  wire.run_for(20_s);
  EXPECT_TRUE(wire.stacks[0]->stack->all_established());
  for (const Wire::Frame& f : wire.left) EXPECT_FALSE(is_arp(f.bytes));
}

TEST(Stack, ProxySleepsWhileArpIsUnanswered) {
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  wire.run_for(10_s);  // run_for() fails if a deadline is always now
  EXPECT_LT(wire.left.size(), 30u);
  EXPECT_GT(wire.left.size(), 8u);
  // The other one comes.
  wire.add(stack_config(1, 2, true));
  wire.run_for(2_s);
  EXPECT_TRUE(a.stack->all_established());
}

TEST(Stack, ArpEntryInUseIsRefreshedBeforeItExpires) {
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  TestStack& b = wire.add(stack_config(1, 2, true));
  wire.run_for(300_s);
  EXPECT_TRUE(a.stack->all_established());
  for (const auto& sub : a.stack->sub_connections()) EXPECT_EQ(sub->stats().path_deaths, 0u);
  const auto& m = b.send(ClusterId(0), 64, 3);
  wire.run_for(1_ms);
  EXPECT_TRUE(m.finished);
}

TEST(Stack, AllClustersReachAllOthers) {
  Wire wire;
  constexpr std::uint16_t kClusters = 5;
  for (std::uint16_t c = 0; c < kClusters; ++c) wire.add(stack_config(c, kClusters, true));
  for (std::uint16_t from = 0; from < kClusters; ++from)
    for (std::uint16_t to = 0; to < kClusters; ++to)
      if (from != to) wire.stacks[from]->send(ClusterId(to), 64, from * 10u + to);
  wire.run_for(50_ms);
  for (std::uint16_t c = 0; c < kClusters; ++c) {
    EXPECT_TRUE(wire.stacks[c]->stack->all_established());
    EXPECT_EQ(wire.stacks[c]->delivered.size(), kClusters - 1u);
    EXPECT_TRUE(wire.stacks[c]->stack->to(ClusterId(c)).empty()) << "not to itself";
    EXPECT_TRUE(wire.stacks[c]->stack->to(ClusterId(kMaxClusters)).empty());
    EXPECT_TRUE(wire.stacks[c]->stack->to(ClusterId(65535)).empty());
  }
}

TEST(Stack, BusySubConnectionDoesNotDelayOthers) {
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 3));
  wire.add(stack_config(1, 3));
  wire.add(stack_config(2, 3));
  wire.run_for(10_ms);
  for (std::uint64_t i = 0; i < 20; ++i) a.send(ClusterId(1), 1300, i);
  a.send(ClusterId(2), 64, 99);
  Bytes room(a.stack->frame_bytes());
  // In a burst of two there is one of each.
  std::vector<Ipv4Address> to;
  for (int i = 0; i < 2; ++i) {
    EXPECT_GT(a.stack->poll_transmit(wire.now, kWire, room), 0u);
    to.push_back(Ipv4Address::load(room.data() + kIp + 16));
  }
  EXPECT_NE(to[0], to[1]);
}

TEST(Stack, FrameForAnotherProxyIsHandedOver) {  // UDP-2
  Connected c(3);
  for (const unsigned proxy : {1u, 2u}) {
    Bytes f = c.frame;
    store_be(f.data() + kUdp + 2, static_cast<std::uint16_t>(7700 + proxy));
    const Stack::Received r = c.b.receive(c.wire.now, f);
    EXPECT_EQ(r.what, What::kMisdirected);
    EXPECT_EQ(r.proxy, proxy);
  }
  EXPECT_EQ(c.b.stack->stats(), c.before) << "its own stack looks into it";
  for (const unsigned port : {7699u, 7703u, 0u, 65535u}) {
    Bytes f = c.frame;
    store_be(f.data() + kUdp + 2, static_cast<std::uint16_t>(port));
    EXPECT_EQ(c.b.receive(c.wire.now, Connected::mended(f)).what, What::kNothing);
  }
  EXPECT_EQ(c.b.stack->stats().closed_ports, c.before.closed_ports + 4);
  EXPECT_TRUE(c.b.delivered.empty());
}

// The UDP source ports of what `from` sent after `since`, all of them.
std::vector<std::uint16_t> source_ports(const Wire& wire, std::uint16_t from, std::size_t since) {
  std::vector<std::uint16_t> ports;
  for (std::size_t i = since; i < wire.left.size(); ++i)
    if (const Bytes& f = wire.left[i].bytes; Ipv4Address::load(f.data() + kIp + 12) == ip_of(from))
      ports.push_back(load_be<std::uint16_t>(f.data() + kUdp));
  return ports;
}

TEST(Stack, RequestedSourcePortIsUsed) {  // SC-12
  for (const Fragmentation fragmentation : {Fragmentation::kTransport, Fragmentation::kIp}) {
    Wire wire;
    StackConfig of_a = stack_config(0, 2);
    StackConfig of_b = stack_config(1, 2);
    of_a.fragmentation = of_b.fragmentation = fragmentation;
    StackConfig asking = of_b;
    asking.remotes[0].wanted_source_port = first_steered_port(0) + 5;
    TestStack& a = wire.add(of_a);
    TestStack& b = wire.add(asking);
    wire.run_for(10_ms);
    ASSERT_TRUE(a.stack->all_established());
    std::size_t since = wire.left.size();
    const auto& there = a.send(ClusterId(1), 300, 1);
    const auto& back = b.send(ClusterId(0), 300, 2);
    wire.run_for(10_ms);
    EXPECT_EQ(b.delivered, std::vector<Bytes>{there.content});
    EXPECT_EQ(a.delivered, std::vector<Bytes>{back.content});
    EXPECT_THAT(source_ports(wire, 0, since),
                testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(49157)));
    EXPECT_THAT(source_ports(wire, 1, since),
                testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(7700)));

    // Its successor does not mind.
    of_b.seed = 77;
    b.stack = std::make_unique<Stack>(of_b, wire.now);
    wire.run_for(10_ms);
    ASSERT_TRUE(b.stack->all_established());
    since = wire.left.size();
    a.send(ClusterId(1), 300, 3);
    wire.run_for(10_ms);
    EXPECT_THAT(source_ports(wire, 0, since),
                testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(7700)));
  }
}

TEST(Stack, SourcePortOfAnotherProxyIsNotUsed) {  // SC-12
  for (const unsigned asked :
       {1u, 53u, 7701u, first_steered_port(0) - 1u, first_steered_port(1) + 0u, 65535u}) {
    SCOPED_TRACE(asked);
    Wire wire;
    wire.add(stack_config(0, 2, false, 2));
    StackConfig asking = stack_config(1, 2);
    asking.remotes[0].wanted_source_port = static_cast<std::uint16_t>(asked);
    wire.add(asking);
    wire.run_for(10_ms);
    EXPECT_TRUE(wire.stacks[0]->stack->all_established());
    EXPECT_THAT(source_ports(wire, 0, 0),
                testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(7700)));
  }
}

TEST(Stack, ArpReplyIsForAllProxies) {
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true, 2));
  wire.add(stack_config(1, 2, true));
  What seen = What::kNothing;
  wire.change = [&](const Bytes& f) {
    if (is_arp(f) && MacAddress::load(f.data()) == mac_of(0))
      seen = a.stack->receive(wire.now, kWire, f).what;
    return std::vector<Bytes>{f};
  };
  wire.run_for(1_ms);
  EXPECT_EQ(seen, What::kForAllProxies);
}

// Each kind of bad frame moves one counter and does nothing else.
TEST(Stack, EveryKindOfBadFrameIsCountedAndIgnored) {  // SC-2, SC-9, IP-1, UDP-1
  struct Case {
    const char* what;
    std::uint64_t StackStats::*counter;
    std::function<Bytes(Bytes)> change;
    std::uint64_t received = 0;    // of packets_received too: it was for us and well-formed
    std::uint64_t complaints = 0;  // and its sender is told
  };
  const auto put = [](std::size_t at, int value) {
    return [=](const Bytes& f) { return with(f, at, value); };
  };
  const auto put_and_mend = [](std::size_t at, int value) {
    return [=](const Bytes& f) { return Connected::mended(with(f, at, value)); };
  };
  const auto addressed = [](Ipv4Address from, Ipv4Address to) {
    return [=](Bytes f) {
      from.store(f.data() + kIp + 12);
      to.store(f.data() + kIp + 16);
      return Connected::mended(f);
    };
  };
  const std::vector<Case> cases = {
      {"a runt", &StackStats::bad_frames, [](const Bytes& f) { return first(f, 13); }},
      {"another station's", &StackStats::bad_frames, put(5, 99)},
      {"another type", &StackStats::bad_frames, put(13, 0x11)},
      {"a broken ARP packet", &StackStats::bad_frames, put(13, 0x06)},
      {"IP version 6", &StackStats::bad_ip, put(kIp, 0x65)},
      {"a wrong IP checksum", &StackStats::bad_ip, put(kIp + 10, 0x55)},
      {"a changed time to live", &StackStats::bad_ip, put(kIp + 8, 12)},
      {"truncated", &StackStats::bad_ip, [](const Bytes& f) { return first(f, f.size() - 1); }},
      {"to everybody on the link", &StackStats::broadcasts,
       [](Bytes f) {
         MacAddress::broadcast().store(f.data());
         return f;
       }},
      {"another address", &StackStats::not_for_us, put_and_mend(kIp + 19, 77)},
      {"to all hosts", &StackStats::broadcasts, addressed(ip_of(0), Ipv4Address(255, 255, 255, 255))},
      {"to a group", &StackStats::broadcasts, addressed(ip_of(0), Ipv4Address(224, 0, 0, 1))},
      {"from nobody", &StackStats::martians, addressed(Ipv4Address(), ip_of(1))},
      {"from all", &StackStats::martians, addressed(Ipv4Address(255, 255, 255, 255), ip_of(1))},
      {"from a group", &StackStats::martians, addressed(Ipv4Address(224, 0, 0, 1), ip_of(1))},
      {"from a loop", &StackStats::martians, addressed(Ipv4Address(127, 0, 0, 1), ip_of(1))},
      {"from us", &StackStats::martians, addressed(ip_of(1), ip_of(1))},
      {"another protocol", &StackStats::bad_frames, put_and_mend(kIp + 9, 6), 0, 1},
      {"a wrong UDP checksum", &StackStats::bad_udp, put(kUdp + 6, 0x55)},
      {"a changed byte", &StackStats::bad_udp, [](const Bytes& f) { return flipped(f, 8 * (f.size() - 1)); }},
      {"no UDP checksum", &StackStats::bad_udp,
       [](const Bytes& f) { return with(with(f, kUdp + 6, 0), kUdp + 7, 0); }},
      {"another version", &StackStats::other_versions, put_and_mend(kPacket, kWireVersion + 1)},
      {"an unknown type", &StackStats::bad_packets, put_and_mend(kPacket + 1, 9)},
      {"from a cluster that is none", &StackStats::unknown_epoch, put_and_mend(kPacket + 4, 63)},
      {"from a cluster that cannot be", &StackStats::unknown_epoch, put_and_mend(kPacket + 5, 1)},
      {"from a proxy that cannot be", &StackStats::unknown_epoch, put_and_mend(kPacket + 6, 200)},
      {"for another proxy", &StackStats::unknown_epoch, put_and_mend(kPacket + 7, 1)},
      {"of another sender's epoch", &StackStats::unknown_epoch, put_and_mend(kPacket + 12, 0x77), 1},
      {"for another receiver's epoch", &StackStats::unknown_epoch, put_and_mend(kPacket + 20, 0x77), 1},
      {"beyond the window", &StackStats::bad_packets, put_and_mend(kPacket + 30, 9), 1},
      {"acknowledges what was never sent", &StackStats::bad_packets, put_and_mend(kPacket + 33, 1), 1},
  };
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.what);
    Connected c;
    EXPECT_EQ(c.b.receive(c.wire.now, wrong.change(c.frame)).what, What::kNothing);
    StackStats expected = c.before;
    ++(expected.*wrong.counter);
    expected.packets_received += wrong.received;
    expected.icmp_errors_sent += wrong.complaints;
    EXPECT_EQ(c.b.stack->stats(), expected);
    EXPECT_TRUE(c.b.delivered.empty());
    // The good one arrives as if nothing had been.
    EXPECT_EQ(c.b.receive(c.wire.now, c.frame).what, What::kRecords);
    EXPECT_EQ(c.b.delivered.size(), 1u);
    EXPECT_EQ(c.b.receive(c.wire.now, c.frame).what, What::kNothing);
    EXPECT_EQ(c.b.stack->stats().duplicates, c.before.duplicates + 1);
    c.wire.run_for(10_ms);
    EXPECT_TRUE(c.a.sent[0]->finished);
  }
}

TEST(Stack, MalformedRecordsAreCountedAndNeverAcknowledged) {  // SC-4
  Connected c;
  Bytes f = with(c.frame, kPacket + kPacketHeaderBytes + 12, 101);  // longer than what follows
  EXPECT_EQ(c.b.receive(c.wire.now, Connected::mended(f)).what, What::kRecords);
  EXPECT_EQ(c.b.stack->stats().bad_packets, c.before.bad_packets + 1);
  EXPECT_TRUE(c.b.delivered.empty());
  c.wire.run_for(5_us);
  EXPECT_FALSE(c.a.sent[0]->finished);
  c.wire.run_for(50_ms);
  EXPECT_TRUE(c.a.sent[0]->finished) << "the good one comes again";
}

TEST(Stack, EveryFlippedBitIsDetected) {
  Connected c;
  for (std::size_t bit = 0; bit < 8 * c.frame.size(); ++bit) {
    const Stack::Received r = c.b.stack->receive(c.wire.now, kWire, flipped(c.frame, bit));
    const bool source_mac =
        bit / 8 >= 6 && bit / 8 < 12;  // which nobody looks at, and which Ethernet itself protects
    const bool port = bit / 8 == kUdp + 2 || bit / 8 == kUdp + 3;
    if (source_mac)
      EXPECT_EQ(r.what, What::kRecords) << bit;
    else if (!port)
      EXPECT_EQ(r.what, What::kNothing) << bit;
    else
      EXPECT_NE(r.what, What::kRecords) << bit;
  }
}

TEST(Stack, NoFrameMakesItReadOutOfBounds) {
  Connected c;
  const GuardedPage page;
  for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Bytes f = c.frame;
    const std::size_t changes = prng.below(4);
    for (std::size_t i = 0; i < changes; ++i) f[prng.below(f.size())] = static_cast<std::byte>(prng.next());
    if (prng.chance(0.3)) f = first(f, prng.below(f.size()));
    if (prng.chance(0.3)) f = random_bytes(prng, prng.below(200));
    if (f.size() >= kPacket + kPacketHeaderBytes && prng.chance(0.7)) f = Connected::mended(f);
    const ByteView held = page.hold(f);
    const Stack::Received r = c.b.stack->receive(c.wire.now, kWire, held);
    if (r.what != What::kRecords) continue;
    RecordReader reader(r.records, r.record_count);
    Record record;
    ByteView bytes;
    while (reader.next(&record, &bytes)) ASSERT_TRUE(lies_within(bytes, held));
  }
}

// Over a wire that harms frames, everything arrives once and as it was sent.
TEST(StackSoak, MessagesArriveOnceOverAFaultyWire) {  // SW-1, SW-4, SC-4
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Wire wire;
    TestStack& a = wire.add(stack_config(0, 2, prng.chance(0.5)));
    TestStack& b = wire.add(stack_config(1, 2, prng.chance(0.5)));
    wire.change = [&](const Bytes& f) {
      std::vector<Bytes> out;
      if (prng.chance(0.9)) out.push_back(f);
      if (prng.chance(0.1)) out.push_back(flipped(f, prng.below(8 * f.size())));
      if (prng.chance(0.1)) out.push_back(first(f, prng.below(f.size())));
      if (prng.chance(0.1)) out.push_back(f);
      // A cut of less than an address is none of the wire's frames.
      std::erase_if(out, [](const Bytes& x) { return x.size() < 14; });
      return out;
    };
    std::vector<Bytes> expected;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const auto& m = a.send(ClusterId(1), static_cast<std::uint32_t>(prng.below(1300)), seed * 1000 + i);
      expected.push_back(m.content);
      if (prng.chance(0.2)) wire.run_for(Duration::us(static_cast<std::int64_t>(prng.below(100))));
    }
    wire.run_for(5_s);
    for (const auto& m : a.sent) EXPECT_TRUE(m->finished);
    EXPECT_EQ(a.stack->sub_connections()[0]->in_flight_packets(), 0u);
    std::sort(expected.begin(), expected.end());
    std::sort(b.delivered.begin(), b.delivered.end());
    EXPECT_EQ(b.delivered, expected);
  }
}

}  // namespace
}  // namespace braid::stack
