// The watchdog's time limits, with given times.
#include "tools/braid/run/watchdog.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid::cli {
namespace {

Instant at(Duration d) {
  return Instant() + 1000_s + d;
}

using Finding = Watchdog::Finding;

// Calls the watchdog at each of its deadlines until `end`, with the observation of `see`; returns the time at which
// it found this, or never().
template <class See>
Instant finds(Finding what, Watchdog& watchdog, Instant end, See see) {
  while (watchdog.next_deadline() <= end) {
    const Instant now = watchdog.next_deadline();
    if (watchdog.look(now, see(now)) == what) return now;
  }
  return Instant::never();
}
template <class See>
Instant tells(Watchdog& watchdog, Instant end, See see) {
  return finds(Finding::kEnd, watchdog, end, see);
}

Watchdog::Seen seen(bool all_wait, std::uint64_t progress) {
  return {.all_wait = all_wait, .progress = progress};
}
// Some wait, and the others compute.
Watchdog::Seen seen_alone(std::uint64_t progress = 0) {
  return {.others_compute_alone = true, .progress = progress};
}

constexpr Duration kHint = 30_s;

TEST(Watchdog, ReportsOnceWhenAllHaveWaitedForTheLimit) {
  Watchdog watchdog(kHint, 3_s);
  watchdog.start(at(0_s));
  const Instant told = tells(watchdog, at(60_s), [](Instant) { return seen(true, 0); });
  EXPECT_GE(told, at(3_s));
  EXPECT_LE(told, at(3_s) + Watchdog::kInterval);
  EXPECT_EQ(watchdog.next_deadline(), Instant::never());
}

TEST(Watchdog, ProgressRestartsTheTime) {
  Watchdog watchdog(kHint, 3_s);
  watchdog.start(at(0_s));
  // Something happens every 2 s until 20 s have passed.
  const Instant told = tells(watchdog, at(60_s), [](Instant now) {
    return seen(true, static_cast<std::uint64_t>(std::min(now - at(0_s), 20_s).ns() / 2'000'000'000));
  });
  EXPECT_GE(told, at(23_s));
  EXPECT_LE(told, at(23_s) + Watchdog::kInterval * 2);
}

TEST(Watchdog, ComputingIsNotWaiting) {
  Watchdog watchdog(kHint, 3_s);
  watchdog.start(at(0_s));
  const Instant told = tells(watchdog, at(60_s), [](Instant now) { return seen(now > at(40_s), 0); });
  EXPECT_GE(told, at(43_s));
  EXPECT_LE(told, at(43_s) + Watchdog::kInterval * 2);
}

TEST(Watchdog, HintsOnceUntilSomethingHappensAndNeverEndsARunWithoutALimit) {
  Watchdog watchdog(kHint, 0_s);
  watchdog.start(at(0_s));
  const auto see = [](Instant now) { return seen(true, now < at(200_s) ? 0u : 1u); };
  const Instant first = finds(Finding::kHint, watchdog, at(150_s), see);
  EXPECT_GE(first, at(0_s) + kHint);
  EXPECT_LE(first, at(0_s) + kHint + Watchdog::kInterval);
  EXPECT_EQ(finds(Finding::kHint, watchdog, at(200_s), see), Instant::never()) << "once";
  const Instant second = finds(Finding::kHint, watchdog, at(400_s), see);
  EXPECT_GE(second, at(200_s) + kHint);
  EXPECT_EQ(finds(Finding::kEnd, watchdog, at(1000_s), see), Instant::never());
}

TEST(Watchdog, HintsBeforeALongLimit) {
  Watchdog watchdog(kHint, 60_s);
  watchdog.start(at(0_s));
  const auto see = [](Instant) { return seen(true, 0); };
  EXPECT_LT(finds(Finding::kHint, watchdog, at(100_s), see), at(31_s));
  EXPECT_GE(finds(Finding::kEnd, watchdog, at(100_s), see), at(60_s));
}

TEST(Watchdog, NeverHintsIfThatIsSwitchedOff) {
  Watchdog watchdog(0_s, 60_s);
  watchdog.start(at(0_s));
  std::size_t hints = 0;
  Instant end = Instant::never();
  while (end == Instant::never()) {
    const Instant now = watchdog.next_deadline();
    const Finding found = watchdog.look(now, seen(true, 0));
    if (found == Finding::kHint) ++hints;
    if (found == Finding::kEnd) end = now;
  }
  EXPECT_EQ(hints, 0u);
  EXPECT_GE(end, at(60_s));
}

TEST(Watchdog, HintsOnceInARunThatSomeWaitWhileTheOthersComputeAlone) {
  Watchdog watchdog(kHint, 3_s);
  watchdog.start(at(0_s));
  // Until 10 s somebody calls the runtime, and once more at 50 s.
  const auto see = [](Instant now) {
    if (now < at(10_s)) return Watchdog::Seen{};
    return seen_alone(now < at(50_s) ? 0 : 1);
  };
  const Instant first = finds(Finding::kAloneHint, watchdog, at(500_s), see);
  EXPECT_GE(first, at(40_s) - Watchdog::kInterval);
  EXPECT_LE(first, at(40_s) + Watchdog::kInterval * 2);
  EXPECT_EQ(finds(Finding::kAloneHint, watchdog, at(500_s), see), Instant::never());
  EXPECT_NE(watchdog.next_deadline(), Instant::never()) << "it is no end";
}

TEST(Watchdog, WhoWaitsAndGoesOnBesideThoseThatComputeGetsNoHint) {
  Watchdog watchdog(kHint, 0_s);
  watchdog.start(at(0_s));
  const auto see = [](Instant now) {
    return seen_alone(static_cast<std::uint64_t>((now - at(0_s)).ns() / Duration::s(20).ns()));
  };
  EXPECT_EQ(finds(Finding::kAloneHint, watchdog, at(500_s), see), Instant::never());
}

TEST(Watchdog, HasNoDeadlineBeforeTheStartAndAfterStop) {
  Watchdog stopped(kHint, 3_s);
  EXPECT_EQ(stopped.next_deadline(), Instant::never()) << "before it is started";
  stopped.start(at(0_s));
  EXPECT_EQ(stopped.next_deadline(), at(0_s));
  stopped.stop();
  EXPECT_EQ(stopped.next_deadline(), Instant::never());
}

}  // namespace
}  // namespace braid::cli
