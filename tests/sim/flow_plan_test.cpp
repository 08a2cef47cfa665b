// Drawn connections and messages are within the bounds of the configuration, and a seed determines them.
#include "tests/sim/flow_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "convergence/position.h"
#include "tests/sim/message_stream.h"
#include "tests/sim/world_events.h"

namespace braid::sim {
namespace {

constexpr unsigned kClients = 6;

unsigned node_of(unsigned client) {
  return client / 2;
}

WorldConfig config_of_flows() {
  WorldConfig w;
  w.endpoints = 3;
  w.window_kib = 64;
  w.messages = 20;
  w.fault_ms = 100;
  return w;
}

TEST(FlowPlan, EndsAreClientsOfTwoNodes) {
  const WorldConfig config = config_of_flows();
  Prng random(1);
  std::set<unsigned> callers;
  for (int i = 0; i < 500; ++i) {
    const FlowPlan plan = draw_flow(config, random, kClients, node_of);
    for (const FlowEndPlan& end : plan.ends) {
      EXPECT_LT(end.client, kClients);
      EXPECT_LT(end.endpoint, 3u);
    }
    EXPECT_NE(node_of(plan.ends[0].client), node_of(plan.ends[1].client));
    callers.insert(plan.ends[0].client);
  }
  EXPECT_EQ(callers.size(), kClients);
}

TEST(FlowPlan, WindowsAndNumbersOfMessagesAreThoseAskedFor) {
  const WorldConfig config = config_of_flows();
  Prng random(1);
  std::set<std::uint32_t> windows, messages;
  for (int i = 0; i < 500; ++i) {
    for (const FlowEndPlan& end : draw_flow(config, random, kClients, node_of).ends) {
      windows.insert(end.window_bytes);
      messages.insert(end.messages);
    }
  }
  EXPECT_EQ(windows, (std::set<std::uint32_t>{4096, 8192, 16384, 32768, 65536}));
  EXPECT_EQ(messages.size(), 20u);
  EXPECT_EQ(*messages.begin(), 1u);
  EXPECT_EQ(*messages.rbegin(), 20u);
}

TEST(FlowPlan, OrderDispatchAndEarlyClosesAreDrawnAsOftenAsAsked) {
  WorldConfig config = config_of_flows();
  for (const double chance : {0.0, 1.0}) {
    config.unordered = config.fixed = config.closes = chance;
    Prng random(1);
    for (int i = 0; i < 50; ++i) {
      const FlowPlan plan = draw_flow(config, random, kClients, node_of);
      EXPECT_EQ(plan.options.ordered, chance == 0);
      EXPECT_EQ(plan.options.dispatch == convergence::Dispatch::kFixed, chance == 1);
      for (const FlowEndPlan& end : plan.ends) EXPECT_EQ(end.close_early, chance == 1);
    }
  }
}

TEST(FlowPlan, FlowsBeginBeforeTheFaultsEnd) {
  const WorldConfig config = config_of_flows();
  Prng random(1);
  int at_once = 0;
  for (int i = 0; i < 500; ++i) {
    const FlowPlan plan = draw_flow(config, random, kClients, node_of);
    for (const Instant at : {plan.listen_at, plan.connect_at}) {
      EXPECT_GE(at, Instant());
      EXPECT_LE(at, Instant() + 85_ms);
    }
    at_once += plan.listen_at == Instant();
  }
  EXPECT_GT(at_once, 0);
  EXPECT_LT(at_once, 500);
}

TEST(FlowPlan, TheSameSeedDrawsTheSame) {
  const WorldConfig config = config_of_flows();
  const auto times = [&](std::uint64_t seed) {
    Prng random(seed);
    std::set<Instant> at;
    for (int i = 0; i < 50; ++i) at.insert(draw_flow(config, random, kClients, node_of).connect_at);
    return at;
  };
  EXPECT_EQ(times(1), times(1));
  EXPECT_NE(times(1), times(2));
}

TEST(MessageDraft, AShortMessageFitsAPieceAndTheLongestAskedFor) {
  WorldConfig config = config_of_flows();
  config.max_bytes = 9000;
  Prng random(1);
  std::uint32_t longest = 0;
  int empty = 0;
  for (int i = 0; i < 2000; ++i) {
    const MessageDraft draft = draw_message(config, random, 4000, false);
    EXPECT_FALSE(draft.is_long());
    EXPECT_EQ(draft.granules, convergence::granules_of(draft.bytes));
    EXPECT_LE(draft.bytes, 4000u);
    longest = std::max(longest, draft.bytes);
    empty += draft.bytes == 0;
  }
  EXPECT_EQ(longest, 4000u);
  EXPECT_NEAR(empty, 100, 50);
}

TEST(MessageDraft, ALongMessageIsLongerThanAPiece) {
  const WorldConfig config = config_of_flows();
  Prng random(1);
  for (int i = 0; i < 500; ++i) {
    const MessageDraft draft = draw_message(config, random, 4000, true);
    EXPECT_TRUE(draft.is_long());
    EXPECT_GT(draft.bytes, 4000u);
    EXPECT_LE(draft.bytes, MessageContents::kLongestMessage);
  }
}

}  // namespace
}  // namespace braid::sim
