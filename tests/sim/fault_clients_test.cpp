// Clients and flows of a fault world on a good network: they connect, exchange all their messages and close; one
// that stops takes nothing, one that dies comes back, and its flows are over.
#include "tests/sim/fault_clients.h"

#include <gtest/gtest.h>

#include "tests/sim/running_nodes.h"

namespace braid::sim {
namespace {

WorldConfig flow_config(double flows) {
  WorldConfig w = RunningNodes::config_of(2);
  w.flows = flows;
  w.messages = 30;
  w.closes = 0;
  w.peer_death_ms = 10'000;
  return w;
}

struct Fixture : RunningNodes {
  explicit Fixture(const WorldConfig& c = flow_config(4))
      : RunningNodes(c), all(config, random, events, log, nodes, trouble, static_cast<FaultDriver&>(*this)) {
    all.plan();
    clients = &all;
  }
  // True: all flows are over by then.
  bool ends_within(Duration time) {
    for (const Instant end = now() + time; now() < end && !all.flows().all_over();) run(1_ms);
    return all.flows().all_over();
  }
  FaultClients all;
};

TEST(FaultClients, AllMessagesOfAllFlowsArriveAndFlowsEnd) {
  Fixture f;
  EXPECT_FALSE(f.all.flows().all_over());
  EXPECT_TRUE(f.ends_within(2_s)) << f.all.flows().unfinished();
  EXPECT_GE(f.all.flows().connections(), 2u) << "one that connects before the other listens is refused";
  EXPECT_GE(f.all.flows().messages(), f.all.flows().connections()) << "each end sends one at least";
  EXPECT_EQ(f.all.flows().unfinished(), "");
  EXPECT_NE(f.nodes.held_clients(), "") << "clients are attached";
  EXPECT_TRUE(f.nodes.holds_clients());
  f.all.end();
  EXPECT_TRUE(f.nodes.holds_clients()) << "the nodes have not learned yet that they are gone";
  f.run(1_s);
  EXPECT_EQ(f.nodes.held_clients(), "");
  EXPECT_FALSE(f.nodes.holds_clients());
}

TEST(FaultClients, LongMessagesAreSentWhileTheWorldGoesOn) {
  WorldConfig w = flow_config(4);
  w.long_messages = 1;
  w.messages = 5;
  Fixture f(w);
  EXPECT_TRUE(f.ends_within(5_s)) << f.all.flows().unfinished();
  EXPECT_FALSE(f.anybody_waits());
}

TEST(FaultClients, AClientThatStopsTakesNothingUntilItsTimeIsOver) {
  Fixture f(flow_config(1));
  for (unsigned c = 0; c < f.all.size(); ++c) f.all.stop(c, f.now() + 100_ms);
  f.run(90_ms);
  EXPECT_EQ(f.all.flows().connections(), 0u);
  EXPECT_FALSE(f.all.flows().all_over());
  f.all.end_stops();
  EXPECT_TRUE(f.ends_within(2_s)) << f.all.flows().unfinished();
  EXPECT_EQ(f.all.flows().connections(), 2u);
}

TEST(FaultClients, FlowsOfAClientThatDiesAreOver) {
  WorldConfig w = flow_config(4);
  w.messages = 10'000;  // more than there is time for
  Fixture f(w);
  f.run(20_ms);
  EXPECT_FALSE(f.all.flows().all_over());
  f.all.kill(0);
  EXPECT_TRUE(f.ends_within(2_s)) << f.all.flows().unfinished();
}

TEST(FaultClients, ClientsOfANodeThatDiesFindOutAndAttachToTheNext) {
  WorldConfig w = flow_config(6);
  w.messages = 10'000;
  w.fault_ms = 3000;
  Fixture f(w);
  f.run(20_ms);
  f.nodes.kill(1);
  f.all.kill_those_of(1);
  f.run(10_ms);
  f.nodes.start(1);
  EXPECT_TRUE(f.ends_within(3_s)) << f.all.flows().unfinished();
}

}  // namespace
}  // namespace braid::sim
