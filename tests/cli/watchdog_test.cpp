// The watchdog's patience, in time that is written.
#include "tools/braid/run/watchdog.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid::cli {
namespace {

Instant at(Duration d) {
  return Instant() + 1000_s + d;
}

// Looks whenever it wants to until `end`, at what `see` shows; returns when it told, or never().
template <class See>
Instant tells(Watchdog& watchdog, Instant end, See see) {
  while (watchdog.next_deadline() <= end) {
    const Instant now = watchdog.next_deadline();
    const auto [all_wait, progress] = see(now);
    if (watchdog.look(now, all_wait, progress)) return now;
  }
  return Instant::never();
}

struct Seen {
  bool all_wait;
  std::uint64_t progress;
};

TEST(Watchdog, ReportsOnceWhenAllHaveWaitedForTheLimit) {
  Watchdog watchdog(3_s);
  watchdog.start(at(0_s));
  const Instant told = tells(watchdog, at(60_s), [](Instant) { return Seen{true, 0}; });
  EXPECT_GE(told, at(3_s));
  EXPECT_LE(told, at(3_s) + Watchdog::kInterval);
  EXPECT_EQ(watchdog.next_deadline(), Instant::never());
}

TEST(Watchdog, ProgressRestartsTheTime) {
  Watchdog watchdog(3_s);
  watchdog.start(at(0_s));
  // Something happens every 2 s until 20 s have passed.
  const Instant told = tells(watchdog, at(60_s), [](Instant now) {
    return Seen{true, static_cast<std::uint64_t>(std::min(now - at(0_s), 20_s).ns() / 2'000'000'000)};
  });
  EXPECT_GE(told, at(23_s));
  EXPECT_LE(told, at(23_s) + Watchdog::kInterval * 2);
}

TEST(Watchdog, ComputingIsNotWaiting) {
  Watchdog watchdog(3_s);
  watchdog.start(at(0_s));
  const Instant told = tells(watchdog, at(60_s), [](Instant now) { return Seen{now > at(40_s), 0}; });
  EXPECT_GE(told, at(43_s));
  EXPECT_LE(told, at(43_s) + Watchdog::kInterval * 2);
}

TEST(Watchdog, HasNoDeadlineWithoutALimitOrAfterStop) {
  Watchdog none(0_s), stopped(3_s);
  none.start(at(0_s));
  EXPECT_EQ(none.next_deadline(), Instant::never());
  EXPECT_EQ(stopped.next_deadline(), Instant::never()) << "before it is started";
  stopped.start(at(0_s));
  EXPECT_EQ(stopped.next_deadline(), at(0_s));
  stopped.stop();
  EXPECT_EQ(stopped.next_deadline(), Instant::never());
}

}  // namespace
}  // namespace braid::cli
