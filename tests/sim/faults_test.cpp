// Faults strike as often, as long and as far as they were asked to, and the same for the same seed.
#include "sim/faults.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace braid::sim {
namespace {

constexpr std::uint64_t kSeed = 20240229;
constexpr std::uint32_t kFrame = 1000;
constexpr int kFrames = 100'000;

constexpr Instant at(Duration since_start) {
  return Instant() + since_start;
}

struct Tally {
  int lost = 0;
  int doubled = 0;
  int late = 0;
  int corrupt = 0;
  int longest_run_of_losses = 0;
  Duration latest;
};

// A frame each microsecond.
Tally tally(FaultModel& model, int frames = kFrames) {
  Tally t;
  int run = 0;
  for (int i = 0; i < frames; ++i) {
    const Fate fate = model.strike(at(Duration::us(i)), kFrame);
    const bool lost = fate.lost != Fate::Lost::kNot;
    EXPECT_EQ(lost, fate.copies == 0);
    run = lost ? run + 1 : 0;
    t.longest_run_of_losses = std::max(t.longest_run_of_losses, run);
    t.lost += lost;
    t.doubled += fate.copies == 2;
    t.late += fate.delay[0] > Duration();
    t.latest = std::max(t.latest, fate.delay[0]);
    t.corrupt += fate.corrupt;
  }
  return t;
}

TEST(Faults, NoFaultsByDefault) {
  FaultModel model({}, kSeed);
  const Tally t = tally(model);
  EXPECT_EQ(t.lost + t.doubled + t.late + t.corrupt, 0);
  EXPECT_FALSE(FaultConfig{}.any());
}

TEST(Faults, EachFaultOccursAtItsConfiguredRate) {
  FaultModel model(
      {.loss = 0.02, .duplicate = 0.03, .reorder = 0.05, .reorder_within = 70_us, .corrupt = 0.01}, kSeed);
  const Tally t = tally(model);
  const double survivors = kFrames * 0.98;
  EXPECT_NEAR(t.lost, kFrames * 0.02, 200);
  EXPECT_NEAR(t.doubled, survivors * 0.03, 250);
  EXPECT_NEAR(t.late, survivors * 0.05, 300);
  EXPECT_NEAR(t.corrupt, survivors * 0.01, 150);
  EXPECT_LE(t.latest, 70_us);
  EXPECT_GT(t.latest, 69_us);
}

TEST(Faults, BurstsLoseRunsOfFramesAtTheConfiguredRate) {
  FaultModel model({.burst_begins = 0.001, .burst_ends = 0.1, .burst_loss = 1.0}, kSeed);
  const Tally t = tally(model);
  // In the bad state for 0.001 / (0.001 + 0.1) of the time, 10 frames in a row on average.
  EXPECT_NEAR(t.lost, kFrames * 0.0099, 350);
  EXPECT_GT(t.longest_run_of_losses, 20);
}

TEST(Faults, SpikesAreExponential) {
  FaultModel model({.spike = 1.0, .spike_mean = 1_ms}, kSeed);
  double sum_ms = 0;
  int over_two = 0;
  for (int i = 0; i < kFrames; ++i) {
    const Duration d = model.strike(at(Duration::us(i)), kFrame).delay[0];
    sum_ms += d.ms();
    over_two += d > 2_ms;
  }
  EXPECT_NEAR(sum_ms / kFrames, 1.0, 0.02);
  EXPECT_NEAR(over_two, kFrames * 0.1353, 600);  // e^-2
}

TEST(Faults, CorruptionReachesEveryByteAndAlwaysChangesIt) {
  FaultModel model({.corrupt = 1.0}, kSeed);
  std::array<int, 20> hits{};
  for (int i = 0; i < 2000; ++i) {
    std::array<std::byte, 20> frame{};
    const Fate fate = model.strike(at(Duration::us(i)), frame.size());
    ASSERT_TRUE(fate.corrupt);
    fate.harm(frame);
    int changed = 0;
    for (std::size_t b = 0; b < frame.size(); ++b) {
      changed += frame[b] != std::byte{};
      hits[b] += frame[b] != std::byte{};
    }
    ASSERT_EQ(changed, 1);
  }
  for (const int hit : hits) EXPECT_NEAR(hit, 100, 50);
}

TEST(Faults, CutLosesEveryFrameUntilItsEnd) {
  FaultModel model({}, kSeed);
  model.cut(at(10_us));
  EXPECT_EQ(model.strike(at(9_us), kFrame).lost, Fate::Lost::kCut);
  model.cut(at(5_us));  // a shorter one takes nothing back
  EXPECT_TRUE(model.is_cut(at(9_us)));
  EXPECT_EQ(model.strike(at(10_us), kFrame).lost, Fate::Lost::kNot);
}

TEST(Faults, ModelWithoutFaultsHarmsNoFrame) {
  FaultModel model({}, kSeed);
  EXPECT_FALSE(model.may_harm(at(1_us)));
  model.cut(at(10_us));
  EXPECT_TRUE(model.may_harm(at(9_us)));
  EXPECT_FALSE(model.may_harm(at(10_us)));
  FaultModel lossy({.loss = 0.1}, kSeed);
  EXPECT_TRUE(lossy.may_harm(at(1_us)));
  lossy.stop();
  EXPECT_FALSE(lossy.may_harm(at(1_us)));
}

TEST(Faults, RandomCutsTakeTheirShareOfTheTime) {
  FaultModel model({.cuts = {.every = 3_ms, .length = 1_ms}}, kSeed);
  const Tally t = tally(model, 2'000'000);  // 2 s: about 500 cuts
  EXPECT_NEAR(t.lost, 2'000'000 * 0.25, 2'000'000 * 0.03);
  EXPECT_GT(t.longest_run_of_losses, 3000);
}

TEST(Faults, CutsDoNotDependOnTheNumberOfFrames) {
  const FaultConfig config{.loss = 0.5, .cuts = {.every = 3_ms, .length = 1_ms}};
  FaultModel busy(config, kSeed);
  FaultModel quiet(config, kSeed);
  busy.is_cut(at(0_us));
  quiet.is_cut(at(0_us));
  for (int i = 0; i < 50'000; ++i) {
    busy.strike(at(Duration::us(i)), kFrame);
    if (i % 100 != 0) continue;
    ASSERT_EQ(busy.is_cut(at(Duration::us(i))), quiet.is_cut(at(Duration::us(i)))) << i;
  }
}

TEST(Faults, ClogReturnsItsEnd) {
  FaultModel model({.clogs = {.every = 3_ms, .length = 1_ms}}, kSeed);
  int clogged = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const Instant now = at(Duration::us(i));
    const Instant until = model.clogged_until(now);
    ASSERT_GE(until, now);
    clogged += until > now;
    EXPECT_EQ(model.strike(now, kFrame).lost, Fate::Lost::kNot);
  }
  EXPECT_NEAR(clogged, 250'000, 50'000);
}

TEST(Faults, NoFaultsAfterStop) {
  FaultModel model(
      {.loss = 1.0, .cuts = {.every = 1_us, .length = 1_s}, .clogs = {.every = 1_us, .length = 1_s}}, kSeed);
  model.cut(at(100_s));
  EXPECT_EQ(tally(model, 100).lost, 100);
  model.stop();
  EXPECT_EQ(model.strike(at(100_us), kFrame).lost, Fate::Lost::kNot);
  EXPECT_EQ(model.clogged_until(at(100_us)), at(100_us));
}

TEST(Faults, SameSeedFaultsTheSameFrames) {
  const FaultConfig config{.loss = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1, .spike = 0.1};
  FaultModel a(config, kSeed);
  FaultModel b(config, kSeed);
  FaultModel c(config, kSeed + 1);
  int different = 0;
  for (int i = 0; i < 1000; ++i) {
    const Instant now = at(Duration::us(i));
    const Fate fate = a.strike(now, kFrame);
    const Fate same = b.strike(now, kFrame);
    ASSERT_EQ(fate.copies, same.copies);
    ASSERT_EQ(fate.delay, same.delay);
    ASSERT_EQ(fate.corrupt_at, same.corrupt_at);
    different += fate.delay != c.strike(now, kFrame).delay;
  }
  EXPECT_GT(different, 100);
}

}  // namespace
}  // namespace braid::sim
