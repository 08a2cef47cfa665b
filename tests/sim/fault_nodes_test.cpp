// The nodes of a fault world alone: they take turns, stand still, die and start again, and reach each other.
#include "tests/sim/fault_nodes.h"

#include <gtest/gtest.h>

#include "tests/sim/running_nodes.h"

namespace braid::sim {
namespace {

using Fixture = RunningNodes;

TEST(FaultNodes, ReachEachOther) {
  Fixture f;
  f.run(50_ms);
  EXPECT_TRUE(f.all_ready());
  EXPECT_EQ(f.nodes.life(0), 1u);
  EXPECT_EQ(f.nodes.peers_lost(), 0u);
  EXPECT_FALSE(f.nodes.anybody_lost());
  EXPECT_EQ(f.nodes.held_clients(), "");
}

TEST(FaultNodes, ASupersededEventDoesNothing) {
  Fixture f;
  f.run(50_ms);
  EXPECT_FALSE(f.nodes.on_worker(0, 7)) << "there is no such proxy";
  f.nodes.wake_proxy(0, 0, f.events.now() + 1_us);
  EXPECT_FALSE(f.nodes.on_worker(0, 0)) << "its turn comes later";
  EXPECT_FALSE(f.nodes.on_control(0));
}

TEST(FaultNodes, AStalledProxyTakesNoTurnUntilItIsOver) {
  Fixture f(RunningNodes::config_of(1));
  f.run(50_ms);
  f.nodes.stall({0, 0}, f.events.now() + 20_ms);
  f.run(5_ms);  // an event that was in the queue is put off
  f.turns = {};
  f.run(10_ms);
  EXPECT_EQ(f.turns[0], 0);
  EXPECT_GT(f.turns[1], 0);
  f.run(10_ms);
  EXPECT_GT(f.turns[0], 0);
}

TEST(FaultNodes, TheEndOfStallsDoesNotEndADeath) {
  Fixture f(RunningNodes::config_of(1));
  f.run(50_ms);
  f.nodes.stall({0, 0}, f.events.now() + 1_s);
  f.nodes.stall_for_good({1, 0}, f.events.now() + 20_ms);
  f.run(3_ms);
  f.nodes.end_stalls();
  f.turns = {};
  f.run(10_ms);
  EXPECT_GT(f.turns[0], 0);
  EXPECT_EQ(f.turns[1], 0);
}

TEST(FaultNodes, AStalledControlPlaneTakesNoTurn) {
  Fixture f;
  f.run(50_ms);
  f.nodes.stall_control(0, f.events.now() + 20_ms);
  f.run(3_ms);
  const std::uint64_t before = f.events.popped();
  f.control_turns = {};
  f.run(15_ms);
  EXPECT_EQ(f.control_turns[0], 0);
  EXPECT_GT(f.control_turns[1], 0);
  EXPECT_GT(f.events.popped(), before);
}

TEST(FaultNodes, NothingOfAHeldNodeTakesATurnAlsoOnAGoodNetwork) {
  Fixture f;
  f.run(50_ms);
  f.nodes.hold(0, f.events.now() + 30_ms);
  f.run(5_ms);  // events that were in the queue are put off
  f.nodes.end_stalls();
  f.turns = f.control_turns = {};
  f.run(20_ms);
  EXPECT_EQ(f.turns[0], 0);
  EXPECT_EQ(f.control_turns[0], 0);
  EXPECT_GT(f.turns[1], 0);
  EXPECT_GT(f.control_turns[1], 0);
  f.run(10_ms);
  EXPECT_GT(f.turns[0], 0);
  EXPECT_GT(f.control_turns[0], 0);
}

TEST(FaultNodes, AStoppedNodeIsGivenUpInTime) {
  Fixture f;  // peers die after 400 ms
  f.run(50_ms);
  f.nodes.stop(1, f.events.now() + 2_s);
  f.run(300_ms);
  EXPECT_EQ(f.nodes.peers_lost(), 0u);
  f.run(1_s);
  EXPECT_GE(f.nodes.peers_lost(), 1u);
  f.nodes.end_stop();
  EXPECT_EQ(f.log.failure(), "");
}

TEST(FaultNodes, AStoppedNodeThatItsPeerDoesNotGiveUpIsAFailure) {
  Fixture f;
  f.run(50_ms);
  f.nodes.stop(1, f.events.now() + 2_s);
  f.nodes.stall_control(0, f.events.now() + 3_s);  // it cannot say so
  f.run(1_s);
  f.nodes.end_stop();
  EXPECT_NE(f.log.failure().find("cluster 0 has not given up cluster 1"), std::string::npos)
      << f.log.failure();
}

TEST(FaultNodes, AProxyThatIsDeadForLongIsFencedByItsNode) {
  Fixture f;
  f.run(50_ms);
  f.nodes.stall_for_good({0, 1}, f.events.now() + 5_s);
  f.run(1_s);
  EXPECT_EQ(f.nodes.proxies_fenced(), 1u);
  EXPECT_EQ(f.nodes.peers_lost(), 0u);
}

TEST(FaultNodes, ANodeThatStartsAgainIsAnotherAndItsPeersLoseTheFirst) {
  Fixture f;
  f.run(50_ms);
  f.nodes.kill(1);
  EXPECT_FALSE(f.nodes.is_running(1));
  EXPECT_EQ(f.nodes.node(1), nullptr);
  EXPECT_TRUE(f.nodes.anybody_lost());
  f.run(10_ms);
  f.nodes.start(1);
  EXPECT_EQ(f.nodes.life(1), 3u) << "a death and a start";
  f.run(200_ms);
  EXPECT_TRUE(f.all_ready());
  EXPECT_GT(f.nodes.peers_lost(), 0u);
  EXPECT_TRUE(f.nodes.may_lose(0, 1));
}

TEST(FaultNodes, APeersLossIsAFailureWhereNobodyWasAwayForLong) {
  WorldConfig w = RunningNodes::config_of(1);
  w.peer_death_ms = 10'000;
  Fixture f(w);
  EXPECT_FALSE(f.nodes.may_lose(0, 1));
  EXPECT_FALSE(f.nodes.may_have_lost(0, 1, f.events.now()));
  f.nodes.kill(1);
  EXPECT_TRUE(f.nodes.may_lose(0, 1));
  EXPECT_TRUE(f.nodes.may_have_lost(0, 1, f.events.now())) << "it is down";
}

TEST(FaultNodes, ANodesClockJumpsAlone) {
  Fixture f;
  f.run(50_ms);
  f.nodes.jump(1, 30_ms);
  EXPECT_EQ(f.nodes.now(0), f.events.now());
  EXPECT_EQ(f.nodes.now(1), f.events.now() + 30_ms);
}

TEST(FaultNodes, CountersOfAGoodRunAreInOrder) {
  Fixture f;
  f.run(50_ms);
  const FaultNodes::Totals totals = f.nodes.check_counters();
  EXPECT_EQ(totals.retransmissions, 0u);
  EXPECT_EQ(totals.paths_fenced, 0u);
  EXPECT_EQ(f.log.failure(), "");
}

}  // namespace
}  // namespace braid::sim
