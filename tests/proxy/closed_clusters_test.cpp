#include "proxy/daemon/closed_clusters.h"

#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

constexpr ClusterId kA{1}, kB{2};

Instant at(Duration d) {
  return Instant() + d;
}

TEST(ClosedClusters, ClusterThatStaysClosedIsLostOnce) {
  ClosedClusters closed(10_s);
  EXPECT_FALSE(closed.is_lost(at(1_s), kA, true));
  EXPECT_FALSE(closed.is_lost(at(10'999_ms), kA, true));
  EXPECT_TRUE(closed.is_lost(at(11_s), kA, true));
  EXPECT_FALSE(closed.is_lost(at(12_s), kA, true)) << "its time starts over";
}

TEST(ClosedClusters, OpenPathEndsTheWait) {
  ClosedClusters closed(10_s);
  EXPECT_FALSE(closed.is_lost(at(1_s), kA, true));
  EXPECT_FALSE(closed.is_lost(at(9_s), kA, false));
  EXPECT_FALSE(closed.is_lost(at(12_s), kA, true));
  EXPECT_TRUE(closed.is_lost(at(22_s), kA, true));
}

TEST(ClosedClusters, EachHasItsOwnTimeAndClearIsForAll) {
  ClosedClusters closed(10_s);
  EXPECT_FALSE(closed.is_lost(at(1_s), kA, true));
  EXPECT_FALSE(closed.is_lost(at(5_s), kB, true));
  EXPECT_TRUE(closed.is_lost(at(11_s), kA, true));
  EXPECT_FALSE(closed.is_lost(at(11_s), kB, true));
  closed.clear();
  EXPECT_FALSE(closed.is_lost(at(15_s), kB, true));
  closed.forget(kB);
  EXPECT_FALSE(closed.is_lost(at(25_s), kB, true));
}

TEST(ClosedClusters, SchedulingGapPostponesTheLossByItsLength) {  // FO-7
  ClosedClusters closed(10_s);
  EXPECT_FALSE(closed.is_lost(at(1_s), kA, true));
  for (int i = 1; i <= 10; ++i) closed.on_scheduling_gap(at(1_s + 200_ms * i), 100_ms);
  EXPECT_FALSE(closed.is_lost(at(11'999_ms), kA, true));
  EXPECT_TRUE(closed.is_lost(at(12_s), kA, true));
}

}  // namespace
}  // namespace braid::proxy
