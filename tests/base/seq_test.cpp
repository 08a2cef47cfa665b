// Sequence numbers across the wrap of 32 bits.
#include "base/seq.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace braid {
namespace {

constexpr Seq kLast{0xffff'ffff};

TEST(Seq, CountsThroughTheWrap) {
  Seq s = kLast;
  ++s;
  EXPECT_EQ(s, Seq(0));
  EXPECT_EQ(kLast + 3, Seq(2));
  EXPECT_EQ(Seq(2) - 3u, kLast);
  s += 0xffff'ffff;
  EXPECT_EQ(s, kLast);
}

TEST(Seq, ComparesRightOnBothSidesOfTheWrap) {
  EXPECT_LT(kLast, Seq(0));
  EXPECT_GT(Seq(5), kLast - 5u);
  EXPECT_LE(Seq(7), Seq(7));
  EXPECT_GE(Seq(7), Seq(7));
  EXPECT_FALSE(Seq(0) < kLast);
  EXPECT_NE(Seq(0), kLast);
}

TEST(Seq, DistanceIsSigned) {
  EXPECT_EQ(Seq(2) - kLast, 3);
  EXPECT_EQ(kLast - Seq(2), -3);
  EXPECT_EQ(Seq(10) - Seq(10), 0);
}

TEST(Seq, OrderHoldsUpToHalfOfTheNumbers) {
  for (const std::uint32_t base : {0u, 1u, 0x7fff'ffffu, 0x8000'0000u, 0xffff'ffffu}) {
    const Seq from(base);
    const Seq furthest = from + 0x7fff'ffff;
    EXPECT_LT(from, furthest) << base;
    EXPECT_GT(furthest, from) << base;
    EXPECT_EQ(furthest - from, 0x7fff'ffff) << base;
  }
}

TEST(Seq, PacketsAndPositionsDoNotMix) {
  static_assert(!std::is_same_v<Seq, Position>);
  static_assert(!std::is_convertible_v<Seq, Position>);
  static_assert(!std::is_convertible_v<std::uint32_t, Seq>);
  static_assert(!std::is_constructible_v<Seq, Position>);
}

}  // namespace
}  // namespace braid
