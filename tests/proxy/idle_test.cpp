// What a proxy does between turns without work.
#include "proxy/daemon/idle.h"

#include <gtest/gtest.h>

#include <string>

namespace braid::proxy {
namespace {

using Next = Idle::Next;

IdleConfig config() {
  IdleConfig c;
  c.spins = 2;
  c.yields = 3;
  c.sleep_min_us = 20;
  c.sleep_max_us = 50;
  return c;
}

// The turns of a wait before its first sleep, as letters; each yield takes so long.
std::string wait(Idle& idle, Duration yield = 1_us) {
  idle.worked(true);
  std::string turns;
  for (Next next = idle.next(); next != Next::kSleep; next = idle.next()) {
    turns += next == Next::kSpin ? 's' : 'y';
    if (next == Next::kYield) idle.yielded(yield);
  }
  return turns;
}

TEST(Idle, SpinsThenYieldsThenSleeps) {
  Idle idle(config());
  EXPECT_EQ(wait(idle), "ssyyy");
  EXPECT_EQ(idle.next(), Next::kSleep);
  idle.worked(false);
  EXPECT_EQ(idle.next(), Next::kSleep) << "timers and probes keep nobody awake";
  EXPECT_EQ(wait(idle), "ssyyy");
}

TEST(Idle, NapsBecomeLongerUntilMessagesAreMoved) {
  Idle idle(config());
  EXPECT_EQ(idle.next_nap(), 20_us);
  EXPECT_EQ(idle.next_nap(), 40_us);
  EXPECT_EQ(idle.next_nap(), 50_us);
  idle.worked(true);
  EXPECT_EQ(idle.next_nap(), 20_us);
}

TEST(Idle, WhereOthersComputeItDoesNotYieldForSomeWaits) {
  Idle idle(config());
  EXPECT_EQ(wait(idle, 3_ms), "ssy") << "the first long yield ends this wait";
  for (int i = 0; i < Crowding::kCrowdedWaits; ++i) {
    EXPECT_EQ(wait(idle), "ss");
    EXPECT_EQ(idle.next(), Next::kSleep) << "which is the same wait";
  }
  EXPECT_EQ(wait(idle), "ssyyy");
}

}  // namespace
}  // namespace braid::proxy
