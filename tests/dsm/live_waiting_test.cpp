// The lock and the word on which threads of a cluster wait.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/clock.h"
#include "dsm/live/waiting.h"

namespace braid::dsm {
namespace {

TEST(CombinerLock, OneHolderAtATimeWithMoreThreadsThanProcessors) {
  CombinerLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        lock.lock();
        ++count;
        lock.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 80'000);
}

TEST(CombinerLock, TryLockReturnsWhetherItWasFree) {
  CombinerLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

TEST(Completion, ThreadDoesNotParkAfterTheSignal) {
  Completion completion;
  completion.begin();
  completion.signal();
  const Instant before = monotonic_now();
  completion.park(10_s);
  EXPECT_TRUE(completion.done());
  EXPECT_LT(monotonic_now() - before, 5_s);
}

TEST(Completion, ParkedThreadWakesWhenSignalled) {
  // Two threads hand over to each other: a lost wake-up causes a sleep of ten seconds.
  Completion there, back;
  const Instant before = monotonic_now();
  there.begin();
  std::thread answerer([&] {
    for (int i = 0; i < 1000; ++i) {
      while (!there.done()) there.park(10_s);
      there.begin();
      back.signal();
    }
  });
  for (int i = 0; i < 1000; ++i) {
    back.begin();
    there.signal();
    while (!back.done()) back.park(10_s);
  }
  answerer.join();
  EXPECT_LT(monotonic_now() - before, 10_s);
}

TEST(Completion, ParkedThreadWakesAtTheTimeout) {
  Completion completion;
  completion.begin();
  completion.park(1_ms);
  EXPECT_FALSE(completion.done());
  completion.signal();
  EXPECT_TRUE(completion.done());
}

}  // namespace
}  // namespace braid::dsm
