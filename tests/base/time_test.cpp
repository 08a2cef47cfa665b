// Lengths and points of time: units, order, and the deadline that never comes.
#include "base/time.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/timespec.h"

namespace braid {
namespace {

TEST(Duration, UnitsAreConvertedRight) {
  EXPECT_EQ((1_us).ns(), 1'000);
  EXPECT_EQ((1_ms).ns(), 1'000'000);
  EXPECT_EQ((1_s).ns(), 1'000'000'000);
  EXPECT_EQ(Duration::us(250), 250'000_ns);
  EXPECT_DOUBLE_EQ((1'500_ns).us(), 1.5);
  EXPECT_DOUBLE_EQ((1'500_us).ms(), 1.5);
  EXPECT_DOUBLE_EQ((1'500_ms).s(), 1.5);
}

TEST(Duration, AddsScalesAndOrders) {
  EXPECT_EQ(1_ms + 500_us, 1'500_us);
  EXPECT_EQ(1_ms - 1'500_us, Duration::us(-500));
  EXPECT_EQ(300_us * 3, 900_us);
  EXPECT_EQ(1_ms / 4, 250_us);
  Duration d = 1_us;
  d += 1_ns;
  EXPECT_EQ(d.ns(), 1'001);
  EXPECT_LT(999_us, 1_ms);
  EXPECT_LT(Duration::ns(-1), Duration());
}

TEST(Duration, IsSecondsAndNanosecondsOfPosix) {
  const timespec time = to_timespec(3_s + 7_ns);
  EXPECT_EQ(time.tv_sec, 3);
  EXPECT_EQ(time.tv_nsec, 7);
  EXPECT_EQ(to_duration({.tv_sec = 2, .tv_nsec = 999'999'999}), 3_s - 1_ns);
}

TEST(Instant, DifferenceIsADuration) {
  const Instant start = Instant::from_ns(5'000);
  EXPECT_EQ(start + 3_us - start, 3_us);
  EXPECT_EQ(start - (start + 3_us), Duration::us(-3));
  EXPECT_EQ((start - 1_us).ns(), 4'000);
  EXPECT_EQ(earlier(start, start + 1_ns), start);
  EXPECT_EQ(earlier(start + 1_ns, start), start);
}

TEST(Instant, NeverIsLaterThanEverything) {
  EXPECT_LT(Instant::from_ns(std::numeric_limits<std::int64_t>::max() - 1), Instant::never());
  EXPECT_EQ(earlier(Instant::never(), Instant::from_ns(7)).ns(), 7);
}

TEST(Instant, NeverPlusAnyDurationIsNever) {
  EXPECT_EQ(Instant::never() + 1_ns, Instant::never());
  EXPECT_EQ(Instant::never() + Duration::s(-10), Instant::never());
}

TEST(Instant, OverflowingSumIsNever) {
  const Instant late = Instant::never() - 1_us;
  EXPECT_EQ(late + 2_us, Instant::never());
  EXPECT_EQ((late + 999_ns).ns(), Instant::never().ns() - 1);
}

}  // namespace
}  // namespace braid
