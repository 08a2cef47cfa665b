// Counters: one thread counts, others read while it does.
#include "base/counters.h"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>

namespace braid {
namespace {

TEST(Counter, CountsSetsAndKeepsTheHighest) {
  Counter c;
  EXPECT_EQ(c.get(), 0u);
  c.add();
  c.add(41);
  EXPECT_EQ(c.get(), 42u);
  c.raise_to(7);
  EXPECT_EQ(c.get(), 42u);
  c.raise_to(50);
  EXPECT_EQ(c.get(), 50u);
  c.set(3);
  EXPECT_EQ(c.get(), 3u);
}

TEST(Counter, OccupiesEightBytesOfSharedMemory) {
  static_assert(sizeof(Counter) == 8 && std::is_standard_layout_v<Counter>);
  static_assert(std::is_trivially_destructible_v<Counter>);
}

TEST(Counter, ReaderNeverSeesItDecrease) {
  constexpr std::uint64_t kCounts = 200'000;
  Counter c;
  std::thread owner([&] {
    for (std::uint64_t i = 0; i < kCounts; ++i) c.add();
  });
  std::uint64_t last = 0;
  bool fell = false;
  while (last < kCounts) {
    const std::uint64_t now = c.get();
    fell |= now < last;
    last = now;
    std::this_thread::yield();
  }
  owner.join();
  EXPECT_FALSE(fell);
  EXPECT_EQ(c.get(), kCounts);
}

}  // namespace
}  // namespace braid
