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
  EXPECT_EQ(rtt.probe_wait(), 300_us) << "three, as nothing is known of the variation";
  for (int i = 0; i < 100; ++i) rtt.on_sample(100_us);
  EXPECT_NEAR(rtt.probe_wait().us(), 150, 1);
  for (int i = 0; i < 20'000; ++i) rtt.on_sample(2_us);
  EXPECT_EQ(rtt.probe_wait(), 20_us) << "a proxy's turn is no finer";
}

// Round trips of 20 us, and one of 3 ms among them.
RttEstimator with_one_long_round_trip() {
  RttEstimator rtt(500_us, 100_ms);
  for (int i = 0; i < 100; ++i) rtt.on_sample(20_us);
  rtt.on_sample(3_ms);
  for (int i = 0; i < 300; ++i) rtt.on_sample(20_us);
  return rtt;
}

TEST(Rtt, BothTimersRememberTheLongestRoundTrip) {  // SW-12
  const RttEstimator rtt = with_one_long_round_trip();
  EXPECT_EQ(rtt.probe_wait(), 3_ms * 11 / 8);
  EXPECT_EQ(rtt.rto(), 6_ms);
  EXPECT_NEAR(rtt.srtt().us(), 20, 1) << "the mean has forgotten it";
}

TEST(Rtt, LongestRoundTripIsForgottenUnlessItOccursAgain) {  // SW-12
  RttEstimator rtt = with_one_long_round_trip();
  for (int i = 0; i < 1000; ++i) rtt.on_sample(20_us);
  EXPECT_LT(rtt.probe_wait(), 3_ms * 11 / 8);
  EXPECT_GT(rtt.probe_wait(), 3_ms);
  for (int i = 0; i < 30'000; ++i) rtt.on_sample(20_us);
  EXPECT_NEAR(rtt.probe_wait().us(), 30, 1);
  EXPECT_EQ(rtt.rto(), 500_us);
}

TEST(Rtt, StoppedPeerRaisesTheTimersToABound) {  // SW-12
  RttEstimator rtt(500_us, 100_ms);
  for (int i = 0; i < 100; ++i) rtt.on_sample(20_us);
  rtt.on_sample(9_s);
  for (int i = 0; i < 300; ++i) rtt.on_sample(20_us);
  EXPECT_EQ(rtt.probe_wait(), 8_ms * 11 / 8) << "sixteen of the shortest timeouts";
  EXPECT_EQ(rtt.rto(), 16_ms);
}

TEST(Rtt, NeededRetransmissionHalvesTheLongestRoundTrip) {  // SW-12
  RttEstimator rtt = with_one_long_round_trip();
  rtt.on_needed_retransmission();
  EXPECT_EQ(rtt.probe_wait(), 3_ms / 2 * 11 / 8);
  EXPECT_EQ(rtt.rto(), 3_ms);
  for (int i = 0; i < 10; ++i) rtt.on_needed_retransmission();
  rtt.on_sample(20_us);
  EXPECT_NEAR(rtt.probe_wait().us(), 30, 1);
  EXPECT_EQ(rtt.rto(), 500_us);
}

}  // namespace
}  // namespace braid::stack
