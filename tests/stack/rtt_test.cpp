// The estimate of the round trip and the timer that follows from it.
#include "stack/window/rtt.h"

#include <gtest/gtest.h>

namespace braid::stack {
namespace {

TEST(Rtt, TimerIsLongBeforeTheFirstSample) {  // SW-6
  RttEstimator rtt(500_us, 100_ms);
  EXPECT_EQ(rtt.rto(), 20_ms);
  EXPECT_EQ(rtt.srtt(), 0_us);
}

TEST(Rtt, FirstSampleSetsMeanAndVariation) {  // SW-6
  RttEstimator rtt(500_us, 100_ms);
  rtt.on_sample(1_ms);
  EXPECT_EQ(rtt.srtt(), 1_ms);
  EXPECT_EQ(rtt.rto(), 3_ms) << "1 ms and four times half of it";
}

TEST(Rtt, LaterSamplesCountAnEighthAndAQuarter) {  // SW-6
  RttEstimator rtt(1_us, 100_ms);
  rtt.on_sample(800_us);
  rtt.on_sample(1600_us);
  EXPECT_EQ(rtt.srtt(), 900_us);
  EXPECT_EQ(rtt.rto(), 900_us + 500_us * 4);  // 400 + (800 - 400) / 4
}

TEST(Rtt, SteadyRoundTripLowersTheTimerToItsFloor) {  // SW-6
  RttEstimator rtt(500_us, 100_ms);
  for (int i = 0; i < 100; ++i) rtt.on_sample(20_us);
  EXPECT_EQ(rtt.rto(), 500_us);
  EXPECT_EQ(rtt.srtt(), 20_us);
}

TEST(Rtt, TimeoutDoublesTheTimerUpToItsCeilingUntilTheNextSample) {  // SW-6
  RttEstimator rtt(500_us, 100_ms);
  for (int i = 0; i < 100; ++i) rtt.on_sample(20_us);
  for (const Duration expected : {1_ms, 2_ms, 4_ms, 8_ms, 16_ms, 32_ms, 64_ms, 100_ms, 100_ms}) {
    rtt.on_timeout();
    EXPECT_EQ(rtt.rto(), expected);
  }
  for (int i = 0; i < 1000; ++i) rtt.on_timeout();
  EXPECT_EQ(rtt.rto(), 100_ms);
  rtt.on_sample(20_us);
  EXPECT_EQ(rtt.rto(), 500_us);
}

TEST(Rtt, ZeroSampleCountsAsOneNanosecond) {  // SW-6
  RttEstimator rtt(500_us, 100_ms);
  rtt.on_sample(0_us);
  EXPECT_EQ(rtt.srtt(), 1_ns);
  EXPECT_EQ(rtt.rto(), 500_us) << "and no longer the timer from before the first sample";
}

TEST(Rtt, ProbeWaitIsOneAndAHalfRoundTripsOrMoreByVariation) {  // SW-10
  RttEstimator rtt(500_us, 100_ms);
  rtt.on_sample(100_us);
  EXPECT_EQ(rtt.probe_wait(), 200_us) << "two, as nothing is known of the variation";
  for (int i = 0; i < 100; ++i) rtt.on_sample(100_us);
  EXPECT_NEAR(rtt.probe_wait().us(), 150, 1);
  for (int i = 0; i < 200; ++i) rtt.on_sample(2_us);
  EXPECT_EQ(rtt.probe_wait(), 20_us) << "a proxy's turn is no finer";
}

}  // namespace
}  // namespace braid::stack
