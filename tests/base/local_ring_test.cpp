// The ring inside one trust domain: bounded, in order, between two threads.
#include "base/local_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace braid {
namespace {

TEST(LocalRing, HoldsItsCapacityAndNoMore) {
  LocalRing<int, 4> ring;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  int out = -1;
  EXPECT_TRUE(ring.pop(out));
  EXPECT_EQ(out, 0);
  EXPECT_TRUE(ring.push(5));
  for (const int expected : {1, 2, 3, 5}) {
    ASSERT_TRUE(ring.pop(out));
    EXPECT_EQ(out, expected);
  }
  EXPECT_FALSE(ring.pop(out));
}

TEST(LocalRing, KeepsTheOrderBetweenTwoThreads) {
  constexpr std::uint32_t kCount = 200'000;
  LocalRing<std::uint32_t, 64> ring;
  std::thread producer([&] {
    for (std::uint32_t i = 0; i < kCount;) {
      if (ring.push(i))
        ++i;
      else
        std::this_thread::yield();
    }
  });
  std::uint32_t out_of_order = 0;
  for (std::uint32_t expected = 0; expected < kCount;) {
    std::uint32_t got = 0;
    if (!ring.pop(got)) {
      std::this_thread::yield();
      continue;
    }
    out_of_order += got != expected;
    ++expected;
  }
  producer.join();
  EXPECT_EQ(out_of_order, 0u);
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace braid
