// Which proxy takes the next message.
#include "convergence/dispatch.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid::convergence {
namespace {

std::vector<unsigned> picks(Dispatcher dispatcher, unsigned lane, int count) {
  std::vector<unsigned> out;
  for (int i = 0; i < count; ++i) out.push_back(dispatcher.pick(lane));
  return out;
}

using Picks = std::vector<unsigned>;

TEST(Dispatcher, FixedKeepsEachComputeNodeAtItsProxy) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kFixed, 3), 0, 4), (Picks{0, 0, 0, 0}));
  EXPECT_EQ(picks(Dispatcher(Dispatch::kFixed, 3), 5, 2), (Picks{2, 2}));
}

TEST(Dispatcher, RoundRobinTakesOneAfterTheOther) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kRoundRobin, 3), 7, 7), (Picks{0, 1, 2, 0, 1, 2, 0}));
}

TEST(Dispatcher, SendersMayBeginAtDifferentProxies) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kRoundRobin, 3, 5), 0, 4), (Picks{2, 0, 1, 2}));
}

TEST(Dispatcher, WithOneProxyThereIsNoChoice) {  // CV-1
  EXPECT_EQ(picks(Dispatcher(Dispatch::kRoundRobin, 1, 9), 4, 2), (Picks{0, 0}));
  EXPECT_EQ(picks(Dispatcher(Dispatch::kFixed, 1), 4, 2), (Picks{0, 0}));
}

TEST(Dispatcher, WithoutAProxyThereIsNone) {
  EXPECT_DEATH(Dispatcher(Dispatch::kFixed, 0), "proxies");
}

}  // namespace
}  // namespace braid::convergence
