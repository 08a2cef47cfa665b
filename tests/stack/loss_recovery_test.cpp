#include "stack/loss_recovery.h"

#include <gtest/gtest.h>

#include "sub_connection_parts.h"

namespace braid::stack {
namespace {

using namespace parts;

struct Fixture : testing::Test {
  void send(Instant now, bool asked = false) { recovery.sent(now, PacketContent{}, 100, asked); }
  LossRecovery::AckOutcome ack(Instant now, const PacketHeader& h, Duration unseen = Duration()) {
    return recovery.on_ack(now, h, unseen, [&](const PacketContent&) { ++acknowledged; });
  }
  // A round trip of 100 us is known, and nothing is in flight.
  void measure() {
    send(at(0_us));
    EXPECT_EQ(ack(at(100_us), ack_header(Seq(1), at(0_us))).ack, LossRecovery::Ack::kProgress);
    acknowledged = 0;
  }

  SubConnectionConfig config = test_config();
  LossRecovery recovery{config};
  int acknowledged = 0;
};
using LossRecoveryTest = Fixture;

TEST_F(LossRecoveryTest, NothingIsDueWithNothingInFlight) {
  EXPECT_EQ(recovery.next_deadline(), Instant::never());
  EXPECT_TRUE(recovery.may_send(at(0_us)));
  const LossRecovery::Expired expired = recovery.on_timer(at(10_s));
  EXPECT_FALSE(expired.loss || expired.timeout || expired.tail_probe);
}

TEST_F(LossRecoveryTest, RoundTripExcludesThePeersAcknowledgementDelay) {  // SW-6
  send(at(0_us));
  PacketHeader h = ack_header(Seq(1), at(0_us));
  h.ack_held = held_ticks(8_us);
  ack(at(108_us), h);
  EXPECT_NEAR(recovery.rtt().srtt().us(), 100, 0.2);
  EXPECT_EQ(acknowledged, 1);
}

TEST_F(LossRecoveryTest, RoundTripIncludesTheTimeThatThePeerDidNotRun) {  // SW-6
  send(at(0_us));
  PacketHeader h = ack_header(Seq(1), at(0_us));
  h.ack_held = held_ticks(1_ms);
  ack(at(1100_us), h);
  EXPECT_NEAR(recovery.rtt().srtt().us(), 1100 - config.ack_delay.us(), 0.2);
}

TEST_F(LossRecoveryTest, EchoOlderThanAnyPacketInFlightIsNoRoundTrip) {
  EXPECT_FALSE(recovery.round_trip(at(20_s), ack_header(Seq(0), at(9_s))).has_value());
  EXPECT_TRUE(recovery.round_trip(at(20_s), ack_header(Seq(0), at(11_s))).has_value());
  PacketHeader without;
  EXPECT_FALSE(recovery.round_trip(at(20_s), without).has_value());
}

TEST_F(LossRecoveryTest, AcknowledgementOfUnsentPacketsIsRefused) {  // SW-3
  send(at(0_us));
  EXPECT_EQ(ack(at(50_us), ack_header(Seq(2), at(0_us))).ack, LossRecovery::Ack::kImpossible);
  EXPECT_EQ(acknowledged, 0);
  EXPECT_EQ(recovery.rtt().srtt(), Duration());
}

TEST_F(LossRecoveryTest, TailIsProbedOnceBeforeTheTimeout) {  // SW-10
  measure();
  send(at(1_ms));
  const Instant probe = recovery.next_deadline();
  EXPECT_GE(probe, at(1_ms) + recovery.rtt().probe_wait() + config.ack_delay);
  EXPECT_LT(probe, at(1_ms) + recovery.rtt().rto());
  EXPECT_TRUE(recovery.on_timer(probe).tail_probe);
  EXPECT_FALSE(recovery.lost_any());
  ASSERT_TRUE(recovery.probe_wanted());
  recovery.probed(probe);
  EXPECT_FALSE(recovery.probe_wanted());
  EXPECT_EQ(recovery.next_deadline(), probe + recovery.rtt().rto());  // no second probe
  const LossRecovery::Expired expired = recovery.on_timer(probe + recovery.rtt().rto());
  EXPECT_TRUE(expired.timeout);
  EXPECT_FALSE(expired.tail_probe);
}

TEST_F(LossRecoveryTest, AnswerToTheProbeTellsOfALossOrThatThereIsNone) {  // SW-10, SW-12
  for (const bool lost : {true, false}) {
    LossRecovery r(config);
    r.sent(at(0_us), PacketContent{}, 100, false);
    const auto ack = [&](Instant now, Seq edge, Instant echo) {
      return r.on_ack(now, ack_header(edge, echo), Duration(), [](const PacketContent&) {});
    };
    ack(at(100_us), Seq(1), at(0_us));
    r.sent(at(1_ms), PacketContent{}, 100, false);
    const Instant probe = r.next_deadline();
    EXPECT_TRUE(r.on_timer(probe).tail_probe);
    r.probed(probe);
    // Of an earlier packet: nothing is known yet.
    EXPECT_FALSE(ack(probe + 50_us, Seq(1), at(0_us)).found_loss);
    EXPECT_FALSE(r.lost_any());
    const LossRecovery::AckOutcome answer = ack(probe + 100_us, Seq(lost ? 1 : 2), probe);
    EXPECT_EQ(answer.found_loss, lost);
    EXPECT_EQ(answer.spurious_probe, !lost);
    EXPECT_EQ(r.lost_any(), lost);
  }
}

TEST_F(LossRecoveryTest, AcknowledgementEndsTheNeedForAProbe) {  // SW-10
  measure();
  send(at(1_ms));
  EXPECT_TRUE(recovery.on_timer(recovery.next_deadline()).tail_probe);
  ack(at(2_ms), ack_header(Seq(2), at(1_ms)));
  EXPECT_FALSE(recovery.probe_wanted());
}

TEST_F(LossRecoveryTest, PacketThatRequestsItsAcknowledgementIsProbedSooner) {  // SW-10
  measure();
  send(at(1_ms), true);
  EXPECT_EQ(recovery.next_deadline(), at(1_ms) + recovery.rtt().probe_wait());
}

TEST_F(LossRecoveryTest, TimeoutDoublesTheTimer) {  // SW-5, SW-6
  send(at(0_us));
  const Duration rto = recovery.rtt().rto();
  EXPECT_EQ(recovery.next_deadline(), at(0_us) + rto);  // no round trip is known, so no probe
  EXPECT_TRUE(recovery.on_timer(at(0_us) + rto).timeout);
  EXPECT_TRUE(recovery.lost_any());
  EXPECT_EQ(recovery.next_deadline(), Instant::never());  // until the lost packet left again
  EXPECT_EQ(recovery.rtt().rto(), rto * 2);
}

TEST_F(LossRecoveryTest, OvertakenPacketsAreDetectedAsLost) {  // SW-4
  measure();
  for (int i = 0; i < 5; ++i) send(at(1_ms));
  PacketHeader h = ack_header(Seq(1), at(1_ms));
  h.sack_words = 1;
  h.sack[0] = 0b1000;  // the fifth: three transmissions after the second
  const LossRecovery::AckOutcome outcome = ack(at(1100_us), h);
  EXPECT_TRUE(outcome.found_loss);
  EXPECT_EQ(acknowledged, 1);
  EXPECT_EQ(recovery.window().next_lost(), Seq(1));
  EXPECT_FALSE(ack(at(1101_us), h).found_loss);  // nothing new
}

TEST_F(LossRecoveryTest, DeadlineAfterSendingIsNeverLate) {
  measure();
  send(at(1_ms));
  EXPECT_LE(recovery.deadline_after_sending(at(1_ms)), recovery.next_deadline());
}

TEST_F(LossRecoveryTest, SchedulingGapPostponesTheTimers) {  // SW-5
  measure();
  send(at(1_ms));
  const Instant due = recovery.next_deadline();
  recovery.on_scheduling_gap(at(50_ms), 49_ms);
  EXPECT_EQ(recovery.next_deadline(), due + 49_ms);
  EXPECT_FALSE(recovery.on_timer(at(50_ms)).timeout);
}

TEST_F(LossRecoveryTest, TimerExpiresThoughThisEndIsHeldUpMoreOftenThanItsTime) {  // SW-5
  measure();
  send(at(1_ms));
  bool expired = false;
  Instant now = at(1_ms);
  // Each time it runs for less than the time of any timer.
  for (int i = 0; i < 1000 && !expired; ++i) {
    now = now + 100_us + 60_ms;
    recovery.on_scheduling_gap(now, 60_ms);
    const LossRecovery::Expired timers = recovery.on_timer(now);
    expired = timers.timeout || timers.tail_probe;
  }
  EXPECT_TRUE(expired);
}

}  // namespace
}  // namespace braid::stack
