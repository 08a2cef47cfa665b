// After one long yield the next waits do without, and then it is tried again.
#include "base/crowding.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(Crowding, WaitsAfterALongYieldDoNotYield) {
  Crowding c;
  EXPECT_FALSE(c.begin_wait());
  EXPECT_FALSE(c.yielded(500_us));
  EXPECT_FALSE(c.begin_wait());
  EXPECT_TRUE(c.yielded(501_us));
  for (int i = 0; i < Crowding::kCrowdedWaits; ++i) EXPECT_TRUE(c.begin_wait());
  EXPECT_FALSE(c.begin_wait());
}

}  // namespace
}  // namespace braid
