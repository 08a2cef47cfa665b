// Which proxy takes the next message.
#include "convergence/dispatch.h"

#include <gtest/gtest.h>

#include <array>

#include <vector>

namespace braid::convergence {
namespace {

std::vector<unsigned> picks(Dispatcher dispatcher, unsigned lane, int count) {
  std::vector<unsigned> out;
  for (int i = 0; i < count; ++i) out.push_back(dispatcher.pick(lane));
  return out;
}

using Picks = std::vector<unsigned>;

TEST(Dispatcher, FixedUsesOneProxyForEachComputeNode) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kFixed, 3), 0, 4), (Picks{0, 0, 0, 0}));
  EXPECT_EQ(picks(Dispatcher(Dispatch::kFixed, 3), 5, 2), (Picks{2, 2}));
}

TEST(Dispatcher, RoundRobinTakesEachProxyInTurn) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kRoundRobin, 3), 7, 7), (Picks{0, 1, 2, 0, 1, 2, 0}));
}

TEST(Dispatcher, SendersMayBeginAtDifferentProxies) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kRoundRobin, 3, 5), 0, 4), (Picks{2, 0, 1, 2}));
}

TEST(Dispatcher, WithOneProxyThereIsNoChoice) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kRoundRobin, 1, 9), 4, 2), (Picks{0, 0}));
  EXPECT_EQ(picks(Dispatcher(Dispatch::kFixed, 1), 4, 2), (Picks{0, 0}));
}

TEST(Dispatcher, WithoutAProxyNoneIsChosen) {
  EXPECT_DEATH(Dispatcher(Dispatch::kFixed, 0), "proxies");
}

TEST(Dispatcher, LeastLoadedTakesTheShortestQueueAndEqualOnesInTurn) {  // CV-1
  Dispatcher d(Dispatch::kLeastLoaded, 3);
  std::array<std::uint64_t, 3> load{5, 2, 9};
  const auto of = [&](unsigned p) { return load[p]; };
  EXPECT_EQ(d.pick(0, of), 1u);
  EXPECT_EQ(d.pick(0, of), 1u);
  load = {7, 7, 7};
  std::array<unsigned, 3> picked{};
  for (int i = 0; i < 30; ++i) ++picked[d.pick(0, of)];
  EXPECT_EQ(picked, (std::array<unsigned, 3>{10, 10, 10}));
}

}  // namespace
}  // namespace braid::convergence
