#include "stack/liveness.h"

#include <gtest/gtest.h>

#include "sub_connection_parts.h"

namespace braid::stack {
namespace {

using namespace parts;
using Verdict = Liveness::Verdict;

TEST(Liveness, SilenceKillsThePathOnceAndThenThePeer) {  // SC-8
  Liveness l(test_config(), at(0_us));
  EXPECT_EQ(l.judgement_due(), at(500_ms));
  EXPECT_EQ(l.judge(at(499_ms)), Verdict::kUnchanged);
  EXPECT_EQ(l.judge(at(500_ms)), Verdict::kPathDied);
  EXPECT_TRUE(l.path_dead());
  EXPECT_EQ(l.judge(at(501_ms)), Verdict::kUnchanged);
  EXPECT_EQ(l.judgement_due(), at(10_s));
  EXPECT_EQ(l.judge(at(10_s)), Verdict::kPeerDied);
}

// However late a path may die.
TEST(Liveness, IdleEndProbesBeforeANatForgetsIt) {  // SC-8
  SubConnectionConfig config = test_config();
  config.path_death = 120_s;
  config.peer_death = 130_s;
  Liveness l(config, at(0_us));
  l.sent(at(1_s));
  EXPECT_EQ(l.probe_due(), at(16_s));
  config.path_death = 20_s;
  EXPECT_EQ(Liveness(config, at(0_us)).probe_due(), at(5_s));
}

TEST(Liveness, PacketThatArrivesEndsTheSilence) {  // SC-8
  Liveness l(test_config(), at(0_us));
  l.received(at(400_ms));
  EXPECT_EQ(l.judge(at(800_ms)), Verdict::kUnchanged);
  EXPECT_EQ(l.judge(at(900_ms)), Verdict::kPathDied);
  l.received(at(950_ms));
  l.set_path_alive();
  EXPECT_FALSE(l.path_dead());
  EXPECT_EQ(l.judgement_due(), at(1450_ms));
}

TEST(Liveness, SchedulingGapIsNotSilenceAndForgivesNoSilenceBeforeIt) {  // SC-8
  Liveness l(test_config(), at(0_us));
  l.on_scheduling_gap(at(700_ms), 300_ms);  // it ran until 400 ms
  EXPECT_EQ(l.judge(at(799_ms)), Verdict::kUnchanged);
  EXPECT_EQ(l.judge(at(800_ms)), Verdict::kPathDied);
  EXPECT_EQ(l.judgement_due(), at(10'300_ms));
}

TEST(Liveness, PeerDiesInTimeThoughThisEndIsHeldUpAgainAndAgain) {  // SC-8
  Liveness l(test_config(), at(0_us));
  Instant now = at(0_us);
  Duration ran;
  Verdict verdict = Verdict::kUnchanged;
  while (verdict != Verdict::kPeerDied && ran < 20_s) {
    now = now + 40_ms + 60_ms;  // 40 ms of running, then a gap
    ran += 40_ms;
    l.on_scheduling_gap(now, 60_ms);
    verdict = l.judge(now);
  }
  EXPECT_EQ(ran, 10_s);
}

TEST(Liveness, SchedulingGapThatIsLongerThanTheSilenceEndsNow) {  // SC-8
  Liveness l(test_config(), at(0_us));
  l.received(at(90_ms));
  l.on_scheduling_gap(at(100_ms), 60_ms);  // the packet was received after the gap
  EXPECT_EQ(l.judgement_due(), at(600_ms));
}

TEST(Liveness, ProbeIsDueAfterAQuarterOfPathDeathWithoutSending) {  // SC-8
  Liveness l(test_config(), at(0_us));
  EXPECT_EQ(l.probe_due(), at(125_ms));
  l.sent(at(100_ms));
  EXPECT_EQ(l.probe_due(), at(225_ms));
}

}  // namespace
}  // namespace braid::stack
