#include "proxy/daemon/window_space.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "convergence/position.h"

namespace braid::proxy {
namespace {

using convergence::kGranuleBytes;
using Grant = convergence::Ports::Grant;

// Two endpoints, four connections, 64 KiB of receive buffers, 32 KiB of which each endpoint can promise.
ChannelGeometry small() {
  ChannelGeometry g;
  g.endpoints = 2;
  g.connections = 4;
  g.receive_bytes = 64 << 10;
  g.arrivals = (32 << 10) / kGranuleBytes;
  return g;
}

TEST(WindowSpace, GrantsTakeCellsAndBuffersInOrder) {
  const ChannelGeometry g = small();
  WindowSpace space(g);
  const auto first = space.grant(0, 4096);
  const auto second = space.grant(1, 8192);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->cell, 0u);
  EXPECT_EQ(first->window_offset, g.receive_buffers());
  EXPECT_EQ(second->cell, 1u);
  EXPECT_EQ(second->window_offset, g.receive_buffers() + 4096);
  EXPECT_EQ(space.longest_free_bytes(), (64u << 10) - 4096 - 8192);
}

TEST(WindowSpace, EndpointPromisesNoMoreThanItsArrivalRingHolds) {
  WindowSpace space(small());
  ASSERT_TRUE(space.grant(0, 32 << 10));
  EXPECT_EQ(space.granules_left(0), 0u);
  EXPECT_FALSE(space.grant(0, 4096)) << "there is space, and no entry in the ring";
  EXPECT_TRUE(space.grant(1, 4096)) << "of another endpoint";
}

TEST(WindowSpace, RefusalTakesNothing) {
  WindowSpace space(small());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(space.grant(0, 4096));
  const std::uint64_t free = space.longest_free_bytes();
  EXPECT_FALSE(space.grant(1, 4096)) << "no cell is left";
  EXPECT_EQ(space.granules_left(1), (32u << 10) / kGranuleBytes);
  EXPECT_EQ(space.longest_free_bytes(), free);
}

TEST(WindowSpace, ReturnedBuffersJoinOnBothSides) {
  WindowSpace space(small());
  const Grant a = *space.grant(0, 16 << 10);
  const Grant b = *space.grant(0, 16 << 10);
  const Grant c = *space.grant(1, 16 << 10);
  const Grant d = *space.grant(1, 16 << 10);
  EXPECT_EQ(space.longest_free_bytes(), 0u);
  space.give_back(0, a, 16 << 10);
  space.give_back(1, c, 16 << 10);
  EXPECT_EQ(space.longest_free_bytes(), 16u << 10) << "b lies between them";
  space.give_back(0, b, 16 << 10);
  EXPECT_EQ(space.longest_free_bytes(), 48u << 10);
  space.give_back(1, d, 16 << 10);
  EXPECT_EQ(space.longest_free_bytes(), 64u << 10);
  EXPECT_EQ(space.granules_left(0), (32u << 10) / kGranuleBytes);
}

TEST(WindowSpace, NoTwoGrantsOverlapWhateverTheOrder) {
  const ChannelGeometry g = small();
  WindowSpace space(g);
  Prng prng(5);
  struct Held {
    Grant grant;
    std::uint32_t endpoint;
    std::uint32_t bytes;
  };
  std::vector<Held> held;
  for (int step = 0; step < 5000; ++step) {
    if (!held.empty() && prng.below(2) == 0) {
      const std::size_t i = prng.below(held.size());
      space.give_back(held[i].endpoint, held[i].grant, held[i].bytes);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    Held one{{}, static_cast<std::uint32_t>(prng.below(2)), 4096u << prng.below(3)};
    const auto grant = space.grant(one.endpoint, one.bytes);
    if (!grant) continue;
    one.grant = *grant;
    EXPECT_GE(one.grant.window_offset, g.receive_buffers());
    EXPECT_LE(one.grant.window_offset + one.bytes, g.receive_buffers() + g.receive_bytes);
    for (const Held& other : held) {
      EXPECT_NE(one.grant.cell, other.grant.cell);
      EXPECT_TRUE(one.grant.window_offset >= other.grant.window_offset + other.bytes ||
                  other.grant.window_offset >= one.grant.window_offset + one.bytes);
    }
    held.push_back(one);
  }
  for (const Held& one : held) space.give_back(one.endpoint, one.grant, one.bytes);
  EXPECT_EQ(space.longest_free_bytes(), g.receive_bytes);
}

}  // namespace
}  // namespace braid::proxy
