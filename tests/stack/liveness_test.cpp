#include "stack/liveness.h"

#include <gtest/gtest.h>

#include <utility>

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

// An end that is quiet from `since` on, and received its last packet then.
Liveness quiet_end(const SubConnectionConfig& config, Duration since) {
  Liveness l(config, at(since - config.path_death * Liveness::kQuietAfter));
  l.received(at(since));
  l.sent(at(since));
  EXPECT_EQ(l.judge(at(since)), Verdict::kUnchanged);
  EXPECT_TRUE(l.quiet());
  return l;
}

TEST(Liveness, EndIsQuietFourPathDeathsAfterTheLastRecord) {  // SC-8
  Liveness l(test_config(), at(0_us));
  l.active(at(1_s));
  l.received(at(2900_ms));
  EXPECT_EQ(l.judge(at(2999_ms)), Verdict::kUnchanged);
  EXPECT_FALSE(l.quiet());
  EXPECT_EQ(l.judge(at(3_s)), Verdict::kUnchanged);
  EXPECT_TRUE(l.quiet());
  l.active(at(4_s));
  EXPECT_FALSE(l.quiet());
}

// An eighth of peer_death is 1250 ms. Quiet ends probe together, at multiples of 312.5 ms; at(0) is 5 s.
TEST(Liveness, QuietEndProbesEightTimesInPeerDeath) {  // SC-8
  Liveness first = quiet_end(test_config(), 2925_ms);
  EXPECT_EQ(first.probe_due(), at(4062'500_us)) << "no later than 4175 ms";
  first.active(at(4_s));
  first.sent(at(4_s));
  EXPECT_EQ(first.probe_due(), at(4125_ms)) << "it has something to say";
  SubConnectionConfig config = test_config();
  std::swap(config.local, config.remote);
  EXPECT_EQ(quiet_end(config, 2_s).probe_due(), at(3437'500_us))
      << "no later than 3562.5 ms: answers to the first one's probes come before";
}

TEST(Liveness, QuietPathIsDeadAfterHalfOfPeerDeath) {  // SC-8
  Liveness l = quiet_end(test_config(), 2_s);
  EXPECT_EQ(l.judgement_due(), at(7_s));
  EXPECT_EQ(l.judge(at(6999_ms)), Verdict::kUnchanged);
  EXPECT_FALSE(l.silent(at(6999_ms)));
  EXPECT_EQ(l.judge(at(7_s)), Verdict::kPathDied);
  EXPECT_EQ(l.judgement_due(), at(12_s));
  EXPECT_EQ(l.judge(at(12_s)), Verdict::kPeerDied);
}

TEST(Liveness, PathThatDiesAsItsEndBecomesQuietIsJudgedAsBefore) {  // SC-8
  Liveness l(test_config(), at(0_us));
  l.received(at(1500_ms));
  EXPECT_EQ(l.judge(at(2100_ms)), Verdict::kPathDied) << "it was due at 2 s";
  EXPECT_TRUE(l.quiet());
}

// The silence before the record says nothing of the path: the peer had nothing to say either.
TEST(Liveness, QuietPathIsDeadPathDeathAfterTheNextRecordLeft) {  // SC-8
  Liveness l = quiet_end(test_config(), 3_s);
  l.active(at(4_s));
  EXPECT_EQ(l.judgement_due(), at(4500_ms));
  l.active(at(4400_ms));  // the record again
  EXPECT_EQ(l.judge(at(4499_ms)), Verdict::kUnchanged);
  EXPECT_EQ(l.judge(at(4500_ms)), Verdict::kPathDied);
  EXPECT_EQ(l.judge(at(13_s)), Verdict::kPeerDied) << "for which all silence counts";
}

TEST(Liveness, QuietEndProbesBeforeANatForgetsIt) {  // SC-8
  SubConnectionConfig config = test_config();
  config.peer_death = 200_s;
  EXPECT_EQ(quiet_end(config, 10_s).probe_due(), at(25_s)) << "which is a multiple of 3750 ms";
  EXPECT_EQ(quiet_end(config, 11_s).probe_due(), at(25_s));
}

// Where peer_death is no longer than two path_deaths.
TEST(Liveness, QuietEndIsNoMoreImpatientThanOthers) {  // SC-8
  SubConnectionConfig config = test_config();
  config.peer_death = 600_ms;
  const Liveness l = quiet_end(config, 2_s);
  EXPECT_EQ(l.probe_due(), at(2125_ms));
  EXPECT_EQ(l.judgement_due(), at(2500_ms));
}

TEST(Liveness, SchedulingGapMakesNobodyQuiet) {  // SC-8
  Liveness l(test_config(), at(0_us));
  l.received(at(2_s));
  l.on_scheduling_gap(at(2_s), 1_s);
  EXPECT_EQ(l.judge(at(2499_ms)), Verdict::kUnchanged);
  l.received(at(2900_ms));
  EXPECT_EQ(l.judge(at(2999_ms)), Verdict::kUnchanged);
  EXPECT_FALSE(l.quiet());
  EXPECT_EQ(l.judge(at(3_s)), Verdict::kUnchanged);
  EXPECT_TRUE(l.quiet());
}

}  // namespace
}  // namespace braid::stack
