// Congestion control: the rule on its own, and senders who share a switch's port, in virtual time.
#include "stack/window/congestion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "sub_connection_path.h"

namespace braid::stack {
namespace {

struct Shared {
  double goodput_share;  // of the port's UDP payload
  double least_share;    // of the worst sender, as a share of an equal one
  Duration longest_queue;
  std::uint64_t dropped;
  std::uint64_t timeouts = 0;
};

Shared meet(std::size_t flows, bool congestion_control, std::uint32_t mtu = 1500) {
  PathConfig config;
  config.flows = flows;
  config.mtu_bytes = mtu;
  config.sub_connection.congestion.enabled = congestion_control;
  Path path(config);
  path.run_for(10_ms);
  std::vector<std::uint64_t> before(flows);
  for (std::size_t f = 0; f < flows; ++f) before[f] = path.delivered(f);
  const std::uint64_t dropped = path.dropped();
  path.forget_longest_queue();
  const Duration time = 40_ms;
  path.run_for(time);
  std::uint64_t sum = 0;
  std::uint64_t least = ~std::uint64_t{0};
  for (std::size_t f = 0; f < flows; ++f) {
    const std::uint64_t got = path.delivered(f) - before[f];
    sum += got;
    least = std::min(least, got);
  }
  const double line = 10e9 / 8 * time.s() * (mtu - 28.0) / (mtu + 38.0);
  Shared s{static_cast<double>(sum) / line,
           static_cast<double>(least) * static_cast<double>(flows) / static_cast<double>(sum),
           path.longest_queue(), path.dropped() - dropped};
  for (std::size_t f = 0; f < flows; ++f) s.timeouts += path.sender(f).stats().timeouts;
  std::printf(
      "%2zu senders, MTU %u, %-5s: goodput %.3f, worst sender %.2f of its share, longest queue %4.0f us, "
      "%llu dropped, %llu timeouts\n",
      flows, mtu, congestion_control ? "delay" : "none", s.goodput_share, s.least_share, s.longest_queue.us(),
      static_cast<unsigned long long>(s.dropped), static_cast<unsigned long long>(s.timeouts));
  return s;
}

double alone(bool congestion_control, Duration sleeps_every, Duration sleeps_for, bool known) {
  PathConfig config;
  config.sub_connection.congestion.enabled = congestion_control;
  config.sleeps_every = sleeps_every;
  config.sleeps_for = sleeps_for;
  config.sleep_is_known = known;
  Path path(config);
  path.run_for(10_ms);
  const std::uint64_t before = path.delivered();
  path.run_for(160_ms);
  const double got = static_cast<double>(path.delivered() - before) / (10e9 / 8 * 0.160 * 1472 / 1538);
  std::printf("%-5s asleep %4.1f of %4.1f ms, %s: goodput %.3f, %llu timeouts\n",
              congestion_control ? "delay" : "none", sleeps_for.ms(), sleeps_every.ms(),
              known ? "known  " : "unknown", got,
              static_cast<unsigned long long>(path.sender().stats().timeouts));
  return got;
}

TEST(SubConnectionCongestion, DelayFromSchedulingIsNoCongestion) {  // SW-11
  for (const Duration every : {500_us, 2_ms, 8_ms}) {
    SCOPED_TRACE(every.ms());
    const double none = alone(false, every, every / 3, true);
    EXPECT_GE(alone(true, every, every / 3, true), 0.95 * none);
    // For comparison: the same if neither end reports that it slept.
    EXPECT_LT(alone(true, every, every / 3, false), 0.9 * none);
  }
}

TEST(SubConnectionCongestion, SendersAtOnePortShareItWithAShortQueue) {  // SW-11
  for (const std::uint32_t mtu : {1500u, 9000u}) {
    for (const std::size_t flows : {1u, 2u, 4u, 8u, 16u}) {
      SCOPED_TRACE(testing::Message() << flows << " senders, MTU " << mtu);
      const Shared none = meet(flows, false, mtu);
      const Shared delay = meet(flows, true, mtu);
      EXPECT_GE(delay.goodput_share, mtu == 1500 ? 0.93 : 0.97);
      EXPECT_GE(delay.goodput_share, 0.99 * none.goodput_share);
      EXPECT_EQ(delay.dropped, 0u);
      EXPECT_GE(delay.least_share, 0.5);
      EXPECT_LE(delay.longest_queue.us(), 300);
      // Without it the port's queue is full, and the slowest may starve.
      if (flows > 1) {
        EXPECT_GT(none.dropped, 0u);
      }
    }
  }
}

// ---------------------------------------------------------------- the rule

constexpr Instant at(Duration since_start) {
  return Instant::from_ns(1'000'000'000) + since_start;
}

struct Rule {
  Congestion congestion{{.enabled = true}, 256};
  Instant now = at(0_us);
  // A round trip in which a window's packets are acknowledged one by one, all with that delay.
  void round(Duration round_trip, Duration held = Duration()) {
    const std::uint32_t packets = congestion.window_packets();
    now = now + round_trip;
    for (std::uint32_t i = 0; i < packets; ++i) congestion.on_ack(now, round_trip, round_trip - held, 1);
    congestion.check();
  }
};

TEST(Congestion, DisabledControlLimitsNothing) {  // SW-11
  Congestion none({}, 256);
  none.on_ack(at(0_us), 100_ms, 100_ms, 1);
  none.on_timeout(at(1_us));
  none.on_loss(at(2_us));
  for (int i = 0; i < 1000; ++i) none.sent(at(3_us));
  EXPECT_EQ(none.window_packets(), 256u);
  EXPECT_TRUE(none.may_send(at(3_us), 1'000'000));
}

TEST(Congestion, GrowsFastUntilFirstCutThenByAPacketPerRoundTrip) {  // SW-11
  Rule r;
  EXPECT_EQ(r.congestion.window_packets(), 32u);
  r.round(20_us);
  EXPECT_EQ(r.congestion.window_packets(), 64u);
  r.round(20_us);
  EXPECT_EQ(r.congestion.window_packets(), 128u);
  r.round(120_us);  // 100 us of queue: 50 too much
  const std::uint32_t cut = r.congestion.window_packets();
  EXPECT_GE(cut, 64u);
  EXPECT_LE(cut, 90u) << "four fifths of 48 in 120";
  r.round(20_us);
  EXPECT_NEAR(r.congestion.window_packets(), cut + 1, 1);
  for (int i = 0; i < 10; ++i) r.round(20_us);
  EXPECT_NEAR(r.congestion.window_packets(), cut + 11, 2);
}

TEST(Congestion, CutIsOncePerRoundTripByAHalfAtMostAndNeverBelowOnePacket) {  // SW-11
  Rule r;
  r.round(20_us);
  r.round(1_ms);
  EXPECT_EQ(r.congestion.window_packets(), 32u);
  for (int i = 0; i < 30; ++i) r.round(10_ms);
  EXPECT_EQ(r.congestion.window_packets(), 1u);
  EXPECT_TRUE(r.congestion.may_send(at(10_s), 0));
  EXPECT_FALSE(r.congestion.may_send(at(10_s), 1));
}

TEST(Congestion, DelayAtTheEndsIsNotPartOfTheSample) {  // SW-11
  Rule r;
  for (int i = 0; i < 5; ++i) r.round(20_us);
  for (int i = 0; i < 20; ++i) r.round(4_ms, 3980_us);
  EXPECT_EQ(r.congestion.window_packets(), 256u);
}

TEST(Congestion, LossCountsOnlyTogetherWithDelay) {  // SW-11
  Rule r;
  r.round(20_us);
  r.congestion.on_loss(r.now);
  EXPECT_EQ(r.congestion.window_packets(), 64u) << "a damaged frame";
  r.round(100_us);
  const std::uint32_t before = r.congestion.window_packets();
  r.congestion.on_loss(r.now + 200_us);
  EXPECT_EQ(r.congestion.window_packets(), before / 2);
}

TEST(Congestion, TimeoutIsForgottenIfTheNextAcknowledgementIsFast) {  // SW-11
  Rule r;
  r.round(20_us);
  for (int i = 1; i <= 3; ++i) r.congestion.on_timeout(r.now + Duration::ms(i));
  EXPECT_EQ(r.congestion.window_packets(), 8u);
  r.congestion.on_ack(r.now + 4_ms, 20_us, 20_us, 1);
  EXPECT_GE(r.congestion.window_packets(), 64u);
  for (int i = 5; i <= 7; ++i) r.congestion.on_timeout(r.now + Duration::ms(i));
  r.congestion.on_ack(r.now + 8_ms, 300_us, 300_us, 1);
  EXPECT_LE(r.congestion.window_packets(), 8u);
}

TEST(Congestion, PacesAQuarterFasterThanItsWindowAfterABurst) {  // SW-11
  Rule r;
  r.round(320_us);
  ASSERT_EQ(r.congestion.window_packets(), 64u);  // one in 4 us
  const Instant now = r.now + 1_ms;
  int burst = 0;
  while (r.congestion.may_send(now, 0)) {
    r.congestion.sent(now);
    ++burst;
  }
  EXPECT_EQ(burst, 16);
  EXPECT_NEAR((r.congestion.departure() - now).us(), 4, 0.1);
  EXPECT_TRUE(r.congestion.may_send(r.congestion.departure(), 0));
}

// A frame that lies in the queue of a proxy that does not run makes a round trip of seconds, long after its packet was
// acknowledged.
TEST(Congestion, ShortRoundTripEndsTheWaitThatALongOneCaused) {  // SW-11
  Rule r;
  r.round(20_us);
  for (int i = 0; i < 30; ++i) {
    r.now = r.now + 100_ms;
    r.congestion.on_timeout(r.now);
    r.congestion.sent(r.now);
  }
  r.congestion.on_ack(r.now, 3_s, 3_s, 1);
  r.congestion.sent(r.now);
  ASSERT_FALSE(r.congestion.may_send(r.now + 50_ms, 0)) << "one packet in 0.8 round trips";
  r.congestion.on_ack(r.now + 20_us, 20_us, 20_us, 1);
  EXPECT_TRUE(r.congestion.may_send(r.now + 300_us, 0));
}

TEST(Congestion, AdaptsToALongerPath) {  // SW-11
  Rule r;
  for (int i = 0; i < 5; ++i) r.round(20_us);
  for (int i = 0; i < 40; ++i) r.round(500_us);
  EXPECT_LE(r.congestion.window_packets(), 4u);
  r.now = r.now + 11_s;
  r.round(500_us);
  r.now = r.now + 11_s;
  for (int i = 0; i < 100; ++i) r.round(500_us);
  EXPECT_GE(r.congestion.window_packets(), 50u);
}

}  // namespace
}  // namespace braid::stack
