// A link's arithmetic, against figures worked out by hand.
#include "sim/link.h"

#include <gtest/gtest.h>

namespace braid::sim {
namespace {

constexpr Instant at(Duration since_start) {
  return Instant() + since_start;
}
using Verdict = Link::Verdict;

TEST(Link, FrameTakesItsBytesPreambleFcsGapAndPropagation) {
  Link link({.bits_per_second = 10'000'000'000, .propagation = 5_us});
  // 1514 + 8 + 4 + 12 = 1538 bytes, 0.8 ns each.
  EXPECT_EQ(link.serialisation(1514), 1230_ns);
  const Link::Transit transit = link.offer(at(1_us), 1514);
  EXPECT_EQ(transit.verdict, Verdict::kCarried);
  EXPECT_EQ(transit.sent, at(2230_ns));
  EXPECT_EQ(transit.arrives, at(7230_ns));
  EXPECT_EQ(transit.begins, at(1_us));
  EXPECT_EQ(link.offer(at(1_us), 1514).begins, transit.sent) << "its turn comes behind the first";
}

TEST(Link, ShortFramesArePadded) {
  EXPECT_EQ(wire_bytes(1), 84u);
  EXPECT_EQ(wire_bytes(60), 84u);
  EXPECT_EQ(wire_bytes(61), 85u);
}

TEST(Link, FramesWaitForEachOtherOnlyWhileTheLinkIsBusy) {
  Link link({.bits_per_second = 8'000'000'000, .propagation = Duration()});  // a byte a nanosecond
  EXPECT_EQ(link.offer(at(0_us), 1000).sent, at(1024_ns));
  EXPECT_EQ(link.offer(at(0_us), 1000).sent, at(2048_ns));
  EXPECT_EQ(link.offer(at(2_us), 1000).sent, at(3072_ns));
  EXPECT_EQ(link.offer(at(10_us), 1000).sent, at(11024_ns));
}

TEST(Link, BusyLinkRunsAtItsExactRateDespiteFractionsOfNanoseconds) {
  Link link({.bits_per_second = 9'999'999'937, .queue_bytes = 1u << 30});  // prime
  Instant sent;
  for (int i = 0; i < 100'000; ++i) sent = link.offer(at(0_us), 60).sent;
  const double exact = 100'000.0 * 84 * 8 * 1e9 / 9'999'999'937.0;
  EXPECT_NEAR(static_cast<double>(sent.ns()), exact, 1.0);
}

TEST(Link, FullQueueDropsUntilItHasDrained) {
  Link link({.bits_per_second = 8'000'000'000, .propagation = 1_us, .queue_bytes = 3 * 1024});
  EXPECT_EQ(link.offer(at(0_us), 1000).verdict, Verdict::kCarried);
  EXPECT_EQ(link.offer(at(0_us), 1000).verdict, Verdict::kCarried);
  EXPECT_EQ(link.offer(at(0_us), 1000).verdict, Verdict::kCarried);
  EXPECT_EQ(link.backlog_bytes(at(0_us)), 3u * 1024);
  EXPECT_EQ(link.offer(at(0_us), 1000).verdict, Verdict::kQueueFull);
  EXPECT_EQ(link.offer(at(1023_ns), 1000).verdict, Verdict::kQueueFull);
  EXPECT_EQ(link.backlog_bytes(at(1024_ns)), 2u * 1024);
  EXPECT_EQ(link.offer(at(1024_ns), 1000).sent, at(4096_ns));
  EXPECT_EQ(link.carried(), 4u);
  EXPECT_EQ(link.carried_bytes(), 4000u);
  EXPECT_EQ(link.dropped(), 2u);
}

TEST(Link, OverlongFrameIsDroppedWithoutQueueing) {
  Link link({.mtu_bytes = 1500});
  EXPECT_EQ(link.offer(at(0_us), 1514).verdict, Verdict::kCarried);
  EXPECT_EQ(link.offer(at(0_us), 1515).verdict, Verdict::kTooLong);
}

TEST(Link, CloggedLinkKeepsTheOrderAndTheQueuesLimit) {
  Link link({.bits_per_second = 8'000'000'000, .propagation = 1_us, .queue_bytes = 2 * 1024});
  link.offer(at(0_us), 1000);
  link.clog(at(0_us), at(1_ms));
  EXPECT_EQ(link.backlog_bytes(at(0_us)), 1024u);
  link.clog(at(0_us), at(2_ms));
  EXPECT_EQ(link.backlog_bytes(at(0_us)), 1024u) << "two clogs end to end are one";
  EXPECT_EQ(link.offer(at(2_us), 1000).sent, at(2_ms) + 1024_ns);
  EXPECT_EQ(link.offer(at(1_ms), 1000).sent, at(2_ms) + 2048_ns);
  EXPECT_EQ(link.offer(at(1_ms), 1000).verdict, Verdict::kQueueFull);
  link.clog(at(1_ms), at(1_ms));  // shorter than what waits anyhow: nothing
  EXPECT_EQ(link.offer(at(3_ms), 1000).sent, at(3_ms) + 1024_ns);
}

}  // namespace
}  // namespace braid::sim
