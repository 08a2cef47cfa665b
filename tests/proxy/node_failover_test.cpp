// Paths, NIs and proxies that die and come back under traffic, and proxies that are set aside, in virtual
// time: whole nodes with clients, on a wire of which every path can be cut in either direction.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/proxy/virtual_world.h"

namespace braid::proxy::test {
namespace {

// One connection each way between clusters 0 and 1, and how far each has come.
struct Traffic {
  explicit Traffic(VirtualWorld& w, bool ordered = true) : world(w), a(w.client(0)), b(w.client(1)) {
    ConnectionOptions options;
    options.ordered = ordered;
    pair = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), PortId(9), options);
    is_ordered = ordered;
  }
  // As many messages each way as there is room for, and what has arrived.
  void turn(bool send = true) {
    for (int i = 0; send && i < 4; ++i) {
      if (pair.out->try_send(numbered(sent[0], size(sent[0]))) == SendStatus::kSent) ++sent[0];
      if (pair.in->try_send(numbered(sent[1], size(sent[1]))) == SendStatus::kSent) ++sent[1];
    }
    const auto take = [&](Connection& at, ByteView message) {
      const int way = &at == pair.in ? 0 : 1;
      ASSERT_TRUE(intact(message));
      const std::uint32_t n = number_of(message);
      ASSERT_TRUE(got[way].insert(n).second) << "message " << n << " came twice";
      ASSERT_TRUE(!is_ordered || n == got[way].size() - 1) << n << " after " << got[way].size() - 1;
    };
    a->endpoint(0).poll(take);
    b->endpoint(0).poll(take);
  }
  void run(Duration time) {
    for (const Instant end = world.now + time; world.now < end;) turn();
  }
  // Everything that was sent arrives.
  [[nodiscard]] bool settles(Duration within) {
    const auto all = [&] { return got[0].size() == sent[0] && got[1].size() == sent[1]; };
    for (const Instant end = world.now + within; world.now < end && !all();) turn(false);
    return all();
  }
  static std::size_t size(std::uint32_t n) { return n % 7 == 0 ? 9000 : n % 5 == 0 ? 1400 : 100; }

  VirtualWorld& world;
  std::unique_ptr<Client> a;
  std::unique_ptr<Client> b;
  Pair pair;
  bool is_ordered = true;
  std::array<std::uint32_t, 2> sent{};
  std::array<std::set<std::uint32_t>, 2> got;
};

// With and without a sub-connection for every pair of proxies, which are made at the start or at their first use.
struct Ways {
  bool all_pairs;
  bool at_first_use;
};
class Failover : public ::testing::TestWithParam<Ways> {
 protected:
  VirtualWorldOptions ways(std::vector<std::uint16_t> proxies) const {
    return {.proxies = std::move(proxies),
            .all_pairs = GetParam().all_pairs,
            .at_first_use = GetParam().at_first_use};
  }
};
INSTANTIATE_TEST_SUITE_P(Pairs, Failover,
                         ::testing::Values(Ways{false, false}, Ways{true, false}, Ways{false, true},
                                           Ways{true, true}),
                         [](const auto& p) {
                           return std::string(p.param.all_pairs ? "AllPairs" : "Aligned") +
                                  (p.param.at_first_use ? "AtFirstUse" : "");
                         });

TEST_P(Failover, UnacknowledgedMessagesOfADeadPathMoveToOthersOnceAndInOrder) {  // FO-1, FO-2, FO-4
  VirtualWorld world(ways({2, 2}));
  Traffic t(world);
  t.run(2_ms);
  world.cut_off({0, 1});
  t.run(1_ms);
  const std::uint32_t before = t.sent[0];
  t.run(20_ms);
  EXPECT_GT(t.sent[0], before);
  EXPECT_TRUE(t.settles(20_ms));
  EXPECT_GT(world.sum(0, &ProxyCounters::failed_over), 0u);
  EXPECT_GT(world.sum(1, &ProxyCounters::failed_over), 0u);
  EXPECT_GE(world.node(0).path_stats().fenced, 1u);

  // It comes back, and is used again.
  world.mend({0, 1});
  world.wait(300_ms);
  const std::uint64_t through = world.node(0).counters(1).messages_sent.get();
  const std::uint64_t lent = world.node(0).counters(1).lent.get();
  t.run(5_ms);
  EXPECT_TRUE(t.settles(20_ms));
  world.run(1_ms);
  EXPECT_GT(world.node(0).counters(1).messages_sent.get(), through);
  EXPECT_EQ(world.node(0).counters(1).lent.get(), lent);
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
}

TEST_P(Failover, LossOfAcknowledgementsAloneDuplicatesNothing) {  // FO-9
  VirtualWorld world(ways({2, 2}));
  for (const bool ordered : {true, false}) {
    SCOPED_TRACE(ordered);
    Traffic t(world, ordered);
    t.run(2_ms);
    // Packets of proxy 1 of cluster 0 arrive; it receives none.
    for (unsigned p = 0; p < 2; ++p) world.cut({1, p}, {0, 1});
    t.run(20_ms);
    EXPECT_TRUE(t.settles(20_ms));
    EXPECT_GT(world.sum(1, &ProxyCounters::redelivered) + world.sum(1, &ProxyCounters::stale_records), 0u);
    world.mend_all();
    world.wait(300_ms);
  }
}

TEST_P(Failover, ManyDeathsAndReturns) {  // FO-1, FO-3, FO-4
  VirtualWorld world(ways({3, 2}));
  Traffic t(world);
  Prng prng(4711);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    world.mend_all();
    // One NI, or one direction of one path, and sometimes nothing.
    if (prng.chance(0.5)) world.cut_off({prng.chance(0.5) ? 0u : 1u, static_cast<unsigned>(prng.below(2))});
    if (prng.chance(0.5)) world.cut({0, static_cast<unsigned>(prng.below(3))}, {1, 0});
    t.run(Duration::us(static_cast<std::int64_t>(500 + prng.below(12'000))));
    ASSERT_FALSE(HasFatalFailure());
  }
  world.mend_all();
  EXPECT_TRUE(t.settles(400_ms));
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
  EXPECT_EQ(world.node(0).path_stats().peers_lost, 0u);
}

TEST_P(Failover, StalledProxyIsFencedAndItsLanesAreServed) {  // FO-5, FO-6
  VirtualWorld world(ways({2, 2}));
  Traffic t(world);
  t.run(2_ms);
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    const ProxyAddress sleeper{static_cast<unsigned>(round % 2), 1};
    world.stalled.insert(sleeper);
    t.run(1_ms);
    const std::uint32_t before = t.sent[0];
    t.run(30_ms);
    EXPECT_GT(t.sent[0], before + 100);
    EXPECT_TRUE(t.settles(30_ms));
    EXPECT_EQ(world.node(sleeper.cluster).poll_fenced_proxy(), std::optional<unsigned>(1));
    // It wakes, with frames and descriptors of long ago before it.
    t.run(1_ms);
    world.stalled.clear();
    t.run(10_ms);
    EXPECT_TRUE(t.settles(30_ms));
    world.wait(300_ms);
    const std::uint64_t through = world.node(sleeper.cluster).counters(1).messages_received.get();
    t.run(5_ms);
    EXPECT_TRUE(t.settles(30_ms));
    world.run(1_ms);
    EXPECT_GT(world.node(sleeper.cluster).counters(1).messages_received.get(), through) << "it is used again";
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
}

TEST_P(Failover, ConnectionsOpenAndCloseWhileAProxyIsStalled) {  // FO-5, CN-6
  VirtualWorld world(ways({2, 2}));
  Traffic t(world);
  t.run(1_ms);
  EXPECT_TRUE(t.settles(10_ms));
  world.stalled.insert({1, 0});
  for (int i = 0; i < 5; ++i) {
    Pair p = connect(t.a->endpoint(0), ClusterId(1), t.b->endpoint(0), PortId(20 + static_cast<unsigned>(i)));
    for (int n = 0; n < 10; ++n) ASSERT_EQ(p.out->try_send(numbered(1, 64)), SendStatus::kSent);
    t.a->endpoint(0).close(p.out);
    int got = 0;
    for (const Instant end = world.now + 100_ms; world.now < end && got < 10;)
      t.b->endpoint(0).poll([&](Connection& at, ByteView m) {
        if (&at == p.in && intact(m)) ++got;
      });
    EXPECT_EQ(got, 10);
    for (const Instant end = world.now + 100_ms; world.now < end && p.in->state() == ConnectionState::kOpen;)
      world.turn();
    EXPECT_EQ(p.in->state(), ConnectionState::kPeerClosed);
    t.b->endpoint(0).close(p.in);
  }
  world.stalled.clear();
  world.run(20_ms);
  t.run(2_ms);
  EXPECT_TRUE(t.settles(30_ms));
}

// A client that attaches while a proxy is stalled has a view for it, which the proxy gets when it is back.
TEST_P(Failover, ClientThatAttachesWhileAProxyIsStalledIsServedByItLater) {  // FO-6
  VirtualWorld world(ways({2, 2}));
  world.run(2_ms);
  world.stalled.insert({1, 1});
  world.run(30_ms);
  ASSERT_EQ(world.node(1).poll_fenced_proxy(), std::optional<unsigned>(1));
  Traffic t(world);
  t.run(2_ms);
  EXPECT_TRUE(t.settles(30_ms));
  world.stalled.clear();
  world.wait(300_ms);
  const std::uint64_t before = world.node(1).counters(1).messages_received.get();
  t.run(5_ms);
  EXPECT_TRUE(t.settles(30_ms));
  world.run(1_ms);
  EXPECT_GT(world.node(1).counters(1).messages_received.get(), before);
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
}

bool is_data(ByteView frame) {
  constexpr std::size_t kType = 14 + 20 + 8 + 1;  // Ethernet, IPv4, UDP, the version
  return frame.size() > kType &&
         load<std::uint8_t>(frame.data() + kType) == static_cast<std::uint8_t>(stack::PacketType::kData);
}

// The proxy has taken a frame with a message from its queue, and delivers it when it is fenced, the message's
// port is gone, and the port's memory is another connection's.
TEST_P(Failover, WritesOfAFencedProxyAreNotSeen) {  // FO-5
  VirtualWorld world(ways({2, 2}));
  const auto a = world.client(0), b = world.client(1);
  ConnectionOptions options;
  options.dispatch = convergence::Dispatch::kFixed;
  const Pair old = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), PortId(9), options);
  world.run(1_ms);

  const ProxyAddress zombie{1, 1};
  bool fell_asleep = false;
  Connection* successor = nullptr;
  world.mid_turn = [&](const ProxyAddress& at, ByteView frame) {
    if (at != zombie || !is_data(frame) || std::exchange(fell_asleep, true)) return;
    world.stalled.insert(zombie);
    std::optional<unsigned> fenced;
    for (const Instant end = world.now + 50_ms; world.now < end && !fenced;) {
      world.turn();
      fenced = world.node(1).poll_fenced_proxy();
    }
    ASSERT_EQ(fenced, 1u);
    b->endpoint(0).close(old.in);
    for (const Instant end = world.now + 50_ms;
         world.now < end && old.out->state() == ConnectionState::kOpen;)
      world.turn();
    ASSERT_EQ(old.out->state(), ConnectionState::kPeerClosed);
    const Pair next = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), PortId(10), options);
    successor = next.in;
    ASSERT_EQ(next.out->try_send(numbered(2, 1000)), SendStatus::kSent);
    a->endpoint(0).flush();
    world.run(2_ms);
    ASSERT_TRUE(b->endpoint(0).has_arrivals());
  };
  // Lane 1 of a fixed dispatch is proxy 1.
  ASSERT_EQ(old.out->try_send(numbered(1, 1000), 1), SendStatus::kSent);
  a->endpoint(0).flush();
  for (int i = 0; i < 1000 && successor == nullptr; ++i) world.turn();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_NE(successor, nullptr);
  world.node(1).worker(1).publish_counters();
  EXPECT_EQ(world.node(1).counters(1).messages_received.get(), 1u) << "the fenced proxy was to write it";

  std::vector<std::uint32_t> got;
  const auto take = [&](Connection& at, ByteView message) {
    EXPECT_EQ(&at, successor);
    EXPECT_TRUE(intact(message));
    got.push_back(number_of(message));
  };
  b->endpoint(0).poll(take);
  world.stalled.clear();
  for (const Instant end = world.now + 20_ms; world.now < end;) b->endpoint(0).poll(take);
  EXPECT_EQ(got, std::vector<std::uint32_t>{2});
  EXPECT_EQ(b->endpoint(0).counts().bad_arrivals, 0u);
  EXPECT_EQ(successor->state(), ConnectionState::kOpen);
}

TEST_P(Failover, NumberOfActiveProxiesChangesUnderTraffic) {  // FO-8
  VirtualWorld world(ways({3, 2}));
  Traffic t(world);
  t.run(1_ms);
  for (const unsigned n : {1u, 3u, 2u, 1u, 2u, 3u, 1u}) {
    SCOPED_TRACE(n);
    world.node(0).set_active_proxies(n);
    world.node(1).set_active_proxies(n % 2 + 1);
    t.run(2_ms);
    std::vector<std::uint64_t> before;
    for (unsigned p = 0; p < 3; ++p) before.push_back(world.node(0).counters(p).messages_sent.get());
    t.run(4_ms);
    for (unsigned p = 0; p < 3; ++p) {
      const std::uint64_t sent = world.node(0).counters(p).messages_sent.get() - before[p];
      EXPECT_EQ(sent > 0, p < n) << "proxy " << p << " sent " << sent;
    }
    EXPECT_TRUE(t.settles(20_ms));
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_EQ(world.node(0).path_stats().fenced, 0u);
}

// Wherever a lane is on its way from one proxy to another when its former server stalls, the client's memory is
// free when it has gone.
TEST(LanesThatMove, LoseNothingIfTheirFormerServerIsStalled) {  // FO-5, FO-8
  for (int turns = 0; turns < 8; ++turns) {
    SCOPED_TRACE(turns);
    VirtualWorld world({3, 1}, false);
    auto client = world.client(0);
    world.node(0).set_active_proxies(1);
    world.run(100_us);
    world.node(0).set_active_proxies(3);
    for (int i = 0; i < turns; ++i) world.turn();
    world.stalled.insert({0, 0});
    world.run(10_ms);
    EXPECT_EQ(world.node(0).poll_fenced_proxy(), 0u);
    world.stalled.clear();
    world.run(2_ms);
    ASSERT_TRUE(world.node(0).has_client(1));
    client.reset();
    EXPECT_FALSE(world.node(0).has_client(1));
  }
}

TEST_P(Failover, RestartedPeerIsLostOnceHoweverManyPathsItHad) {  // FO-7
  VirtualWorld world(ways({2, 2}));
  {
    Traffic t(world);
    t.run(2_ms);
    world.restart(1);
    for (const Instant end = world.now + 50_ms;
         world.now < end && t.pair.out->state() == ConnectionState::kOpen;)
      world.turn();
    EXPECT_EQ(t.pair.out->state(), ConnectionState::kPeerLost);
    t.a.reset();
  }
  // A connection that is made at once lives, although some proxies learn late of the old one's end.
  Traffic again(world);
  again.run(30_ms);
  EXPECT_TRUE(again.settles(20_ms));
  EXPECT_EQ(again.pair.out->state(), ConnectionState::kOpen);
  EXPECT_EQ(world.node(0).path_stats().peers_lost, 1u);
}

TEST_P(Failover, SilentPeerIsLostAndConnectedAgain) {  // FO-7, SC-8
  VirtualWorld world(ways({2, 2}));
  {
    Traffic t(world);
    t.run(2_ms);
    world.cut_off({0, 0});
    world.cut_off({0, 1});
    t.run(50_ms);
    EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
    world.wait(150_ms);
    EXPECT_EQ(t.pair.out->state(), ConnectionState::kPeerLost);
    EXPECT_EQ(t.pair.in->state(), ConnectionState::kPeerLost);
    world.mend_all();
    world.wait(300_ms);
  }
  Traffic again(world);
  again.run(5_ms);
  EXPECT_TRUE(again.settles(20_ms));
  EXPECT_EQ(again.pair.out->state(), ConnectionState::kOpen);
}

// Each end receives nothing on one of the two paths, and not on the same one: it gives that path up for the
// other, and neither receives the other's Fence.
TEST(FailoverOfBoth, NodesThatKeepDifferentPathsReconnectAtOnce) {  // FO-10, SC-13
  for (const bool ordered : {true, false}) {
    SCOPED_TRACE(ordered);
    VirtualWorld world({2, 2}, false);
    Traffic t(world, ordered);
    t.run(2_ms);
    world.cut({1, 0}, {0, 0});
    world.cut({0, 1}, {1, 1});
    t.run(12_ms);
    EXPECT_GE(world.node(0).path_stats().fenced, 1u);
    EXPECT_GE(world.node(1).path_stats().fenced, 1u);
    world.mend_all();
    t.run(2_ms);
    EXPECT_TRUE(t.settles(30_ms)) << "long before either is given up for dead";
    EXPECT_EQ(world.node(0).path_stats().peers_lost + world.node(1).path_stats().peers_lost, 0u);
    EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
    EXPECT_EQ(t.pair.in->state(), ConnectionState::kOpen);
    // And both paths are used again.
    std::array<std::uint64_t, 2> before{};
    for (unsigned p = 0; p < 2; ++p) before[p] = world.node(0).counters(p).messages_sent.get();
    t.run(5_ms);
    world.run(1_ms);
    for (unsigned p = 0; p < 2; ++p) EXPECT_GT(world.node(0).counters(p).messages_sent.get(), before[p]);
  }
}

TEST(FailoverOfBoth, StalledProxyReturnsWhileTheOnlyOtherPathIsDead) {  // FO-6, FO-10
  VirtualWorld world({2, 2}, false);
  Traffic t(world);
  t.run(2_ms);
  world.stalled.insert({0, 0});
  world.cut({0, 1}, {1, 1});
  world.cut({1, 1}, {0, 1});
  t.run(15_ms);
  EXPECT_EQ(world.node(0).poll_fenced_proxy(), 0u);
  world.stalled.clear();
  t.run(5_ms);
  EXPECT_TRUE(t.settles(30_ms)) << "the other path is still dead";
  EXPECT_EQ(world.node(0).path_stats().peers_lost + world.node(1).path_stats().peers_lost, 0u);
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
}

}  // namespace
}  // namespace braid::proxy::test
