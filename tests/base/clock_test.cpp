// The one clock: it runs, and forwards.
#include "base/clock.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(Clock, RunsForwards) {
  const Instant start = monotonic_now();
  EXPECT_GT(start, Instant());
  Instant last = start;
  // Bounded by turns, not by time, so that a clock which stands still fails instead of hanging.
  for (int turn = 0; turn < 100'000'000 && last - start < 1_ms; ++turn) {
    const Instant now = monotonic_now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GE(last - start, 1_ms);
}

}  // namespace
}  // namespace braid
