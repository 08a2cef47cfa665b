// The fault simulation itself: that a seed is a world, that what is asked for happens, and that its settings
// can be set and told. That it finds defects is proven by mutants (fault_simulation_mutants --prove).
#include "tests/sim/world.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/world_config.h"

namespace braid::sim {
namespace {

WorldResult run(const WorldConfig& config) {
  FaultWorld world(config, false);
  WorldResult result = world.run();
  EXPECT_EQ(result.failure, "") << "seed " << config.seed << "\n" << config.describe();
  return result;
}

WorldConfig good_network() {
  WorldConfig w;
  w.messages = 40;
  w.fault_ms = 5;
  return w;
}

TEST(World, SameSeedGivesTheSameEvents) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    const WorldResult first = run(WorldConfig::draw(seed));
    const WorldResult second = run(WorldConfig::draw(seed));
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
    EXPECT_GT(first.events, 0u);
  }
}

TEST(World, GoodNetworkDeliversEverythingWithoutRetransmission) {
  WorldConfig w = good_network();
  w.closes = 0;
  const WorldResult r = run(w);
  EXPECT_GE(r.connections, 4u);
  EXPECT_GT(r.messages, 20u);
  EXPECT_EQ(r.retransmissions, 0u);
  EXPECT_EQ(r.peers_lost, 0u);
}

TEST(World, TrainsFormUnlessTheyAreSwitchedOff) {  // CV-11
  WorldConfig w = good_network();
  w.max_bytes = 100;
  w.closes = 0;
  w.batch = 40;
  w.messages = 300;
  const WorldResult with = run(w);
  EXPECT_GT(with.trains_sent, 20u);
  EXPECT_GT(with.trains_received, 20u);  // not all: one that crosses the end of a ring is taken apart
  w.train_messages = 1;
  const WorldResult without = run(w);
  EXPECT_EQ(without.trains_sent, 0u);
  EXPECT_EQ(without.messages, with.messages);
}

TEST(World, DatagramsArriveOrComeBackBesideConnections) {  // PS-1, PS-5
  WorldConfig w = good_network();
  w.datagrams = 20;
  const WorldResult all = run(w);
  EXPECT_GT(all.datagrams, 0u);
  EXPECT_GT(all.datagrams_returned, 0u)
      << "those that are refused, and those for ports that nobody has bound";
  EXPECT_GT(all.messages, 0u);
  w.serving_nodes = 1;
  const WorldResult one = run(w);
  EXPECT_GT(one.datagrams_returned, 0u) << "those whose protocol is unknown, too";
  w.datagrams = 0;
  const WorldResult none = run(w);
  EXPECT_EQ(none.datagrams + none.datagrams_returned, 0u);
}

TEST(World, EachConfiguredNetworkFaultHappens) {
  WorldConfig w = good_network();
  w.fault_ms = 50;
  w.loss = w.duplicate = w.reorder = w.corrupt = 0.05;
  w.partition_every_ms = 10;
  NetworkCounts sum;
  std::uint64_t again = 0;
  for (w.seed = 1; w.seed <= 5; ++w.seed) {
    const WorldResult r = run(w);
    sum.lost += r.network.lost;
    sum.duplicated += r.network.duplicated;
    sum.delayed += r.network.delayed;
    sum.corrupted += r.network.corrupted;
    sum.cut += r.network.cut;
    again += r.retransmissions;
  }
  EXPECT_GT(sum.lost, 0u);
  EXPECT_GT(sum.duplicated, 0u);
  EXPECT_GT(sum.delayed, 0u);
  EXPECT_GT(sum.corrupted, 0u);
  EXPECT_GT(sum.cut, 0u);
  EXPECT_GT(again, 0u);
}

TEST(World, DeadPathIsReplacedAndNothingIsLost) {
  WorldConfig w = good_network();
  w.proxies_0 = w.proxies_1 = 2;
  w.path_death_ms = 110;
  w.fault_ms = 600;
  w.dead_paths = 1;
  w.closes = 0;
  std::uint64_t fenced = 0;
  for (w.seed = 1; w.seed <= 5; ++w.seed) {
    const WorldResult r = run(w);
    fenced += r.paths_fenced;
    EXPECT_EQ(r.peers_lost, 0u);
  }
  EXPECT_GT(fenced, 0u);
}

// Paths die while nobody sends, and what is sent later finds that out.
TEST(World, PathThatDiesWhileQuietIsReplacedAndNothingIsLost) {  // SC-8
  WorldConfig w = good_network();
  w.proxies_0 = w.proxies_1 = 2;
  w.path_death_ms = 110;
  w.fault_ms = 1000;
  w.pauses = 1;
  w.pause_ms = 900;
  w.dead_paths = 1;
  w.closes = 0;
  std::uint64_t fenced = 0, messages = 0;
  for (w.seed = 1; w.seed <= 8; ++w.seed) {
    const WorldResult r = run(w);
    fenced += r.paths_fenced;
    messages += r.messages;
    EXPECT_EQ(r.peers_lost, 0u);
  }
  EXPECT_GT(fenced, 4u);
  EXPECT_GT(messages, 100u);
}

TEST(World, StalledProxyIsReplaced) {
  WorldConfig w = good_network();
  w.proxies_0 = w.proxies_1 = 3;
  w.path_death_ms = 110;
  w.fault_ms = 50;
  w.dead_proxies = 1;
  w.death_ms = 5000;
  w.closes = 0;
  w.flows = 10;
  std::uint64_t fenced = 0;
  for (w.seed = 1; w.seed <= 5; ++w.seed) fenced += run(w).proxies_fenced;
  EXPECT_GT(fenced, 0u);
}

// All frames of a cluster land on the queue of its proxy 0. While that proxy is dead the node receives nothing,
// so it learns only afterwards that its peers have fenced the proxy, and keeps what clients had until then.
TEST(World, MemoryOfGoneClientsIsFreedAfterTheOnlyReceivingProxyReturns) {
  WorldConfig w = WorldConfig::draw_shared_memory(701046);
  EXPECT_EQ(w.steering, 2);
  const WorldResult r = run(w);
  EXPECT_EQ(r.proxies_fenced, 1u);
  EXPECT_EQ(r.programs, 1u);
}

// A path that comes up again brings an Accept that was meant for the peer's former incarnation, whose port had
// the number of one that its successor connects.
TEST(World, StaleAcceptDoesNotOpenASuccessorsConnection) {  // CN-8
  WorldConfig w;
  w.seed = 740129;
  for (const char* const setting : {"clusters=3",
                                    "proxies_0=2",
                                    "proxies_1=2",
                                    "proxies_2=1",
                                    "mtu=4000",
                                    "min_rto_us=2000",
                                    "path_death_ms=110",
                                    "static_mac=0",
                                    "steering=2",
                                    "all_pairs=1",
                                    "idle_us=50",
                                    "control_us=500",
                                    "gbits=40",
                                    "propagation_us=4.4261",
                                    "fault_ms=480",
                                    "clog_every_ms=16.2",
                                    "clog_ms=5.6",
                                    "path_cut_every_ms=173",
                                    "dead_paths=3",
                                    "link_down_every_ms=24.9885",
                                    "link_down_ms=17.3167",
                                    "dead_proxies=1",
                                    "control_stall_every_ms=38.3792",
                                    "restarts=2",
                                    "down_ms=0.5",
                                    "clients=3",
                                    "flows=10",
                                    "messages=130",
                                    "max_bytes=500",
                                    "window_kib=16",
                                    "pace_us=13.4",
                                    "slow=0.33"})
    ASSERT_TRUE(w.set(setting).ok()) << setting;
  const WorldResult r = run(w);
  EXPECT_GT(r.peers_lost, 0u);
  EXPECT_GT(r.proxies_fenced, 0u);
}

TEST(World, RestartedNodeIsANewIncarnationForItsPeers) {
  WorldConfig w = good_network();
  w.fault_ms = 50;
  w.restarts = 2;
  std::uint64_t lost = 0;
  for (w.seed = 1; w.seed <= 5; ++w.seed) lost += run(w).peers_lost;
  EXPECT_GT(lost, 0u);
}

TEST(WorldConfig, EachSeedDrawsItsOwnWorld) {
  EXPECT_TRUE(WorldConfig::draw(7).differences(WorldConfig::draw(7)).empty());
  EXPECT_GT(WorldConfig::draw(7).differences(WorldConfig::draw(8)).size(), 3u);
}

TEST(WorldConfig, SomeSeedsDraw200Nodes) {
  unsigned many = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {  // as CI runs them
    const double clusters = WorldConfig::draw(seed).clusters;
    many += clusters == 200 ? 1 : 0;
    EXPECT_TRUE(clusters == 200 || (clusters >= 2 && clusters <= 4)) << seed;
    EXPECT_LE(WorldConfig::draw_shared_memory(seed).clusters, 4) << seed;
  }
  EXPECT_GE(many, 2u);
}

TEST(WorldConfig, EachDifferenceCanBeSetByName) {
  const WorldConfig wanted = WorldConfig::draw(7);
  WorldConfig other = WorldConfig::draw(8);
  for (const std::string& assignment : wanted.differences(other))
    ASSERT_TRUE(other.set(assignment).ok()) << assignment;
  EXPECT_TRUE(wanted.differences(other).empty());
}

TEST(WorldConfig, NodeIsNotStoppedForLongerThanAnythingGoesWrong) {
  WorldConfig w;
  w.stopped_ms = w.fault_ms = 100;
  EXPECT_EQ(w.problem(), "");
  w.fault_ms = 99;
  EXPECT_NE(w.problem().find("stopped_ms (100) is longer than fault_ms (99)"), std::string::npos);
}

TEST(WorldConfig, InvalidNamesAreRefused) {
  WorldConfig w;
  EXPECT_NE(w.set("los=0.1").error().text.find("there are clusters"), std::string::npos);
  for (const char* const nonsense : {"loss", "loss=", "loss=much", "=1", ""})
    EXPECT_FALSE(w.set(nonsense).ok());
}

}  // namespace
}  // namespace braid::sim
