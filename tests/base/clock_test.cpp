// The one clock: it runs, and forwards.
#include "base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace braid {
namespace {

TEST(Clock, NeverRunsBackwards) {
  const Instant start = monotonic_now();
  EXPECT_GT(start, Instant());
  Instant last = start;
  // Bounded by turns, not by time, so that a clock that does not advance fails instead of hanging.
  for (int turn = 0; turn < 100'000'000 && last - start < 1_ms; ++turn) {
    const Instant now = monotonic_now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GE(last - start, 1_ms);
}

TEST(Clock, ThreadCpuTimeDoesNotAdvanceWhileTheThreadSleeps) {
  const Duration before = thread_cpu_time();
  const Instant began = monotonic_now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GE(monotonic_now() - began, Duration::ms(50));
  const Duration slept = thread_cpu_time();
  EXPECT_GE(slept, before);
  EXPECT_LT(slept - before, Duration::ms(25));
  Duration now = slept;
  for (int turn = 0; turn < 100'000'000 && now - slept < 1_ms; ++turn) now = thread_cpu_time();
  EXPECT_GE(now - slept, 1_ms);
}

}  // namespace
}  // namespace braid
