// Bytes: orders, alignment, and the range check that hostile lengths meet.
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace braid {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Bytes, NetworkOrderPutsTheHighByteFirst) {
  std::array<std::byte, 8> b{};
  store_be(b.data(), std::uint16_t{0x0102});
  EXPECT_EQ(b[0], std::byte{1});
  EXPECT_EQ(b[1], std::byte{2});
  store_be(b.data(), std::uint32_t{0x01020304});
  EXPECT_EQ(b[0], std::byte{1});
  EXPECT_EQ(b[3], std::byte{4});
  store_be(b.data(), std::uint64_t{0x0102030405060708});
  EXPECT_EQ(b[7], std::byte{8});
  EXPECT_EQ(load_be<std::uint64_t>(b.data()), 0x0102030405060708u);
  EXPECT_EQ(load_be<std::uint16_t>(b.data() + 6), 0x0708u);
  EXPECT_EQ(load_be<std::uint8_t>(b.data() + 2), 3u);
}

TEST(Bytes, NativeOrderIsLittleEndianAndNeedsNoAlignment) {
  std::array<std::byte, 9> b{};
  store(b.data() + 1, std::uint64_t{0x0102030405060708});
  EXPECT_EQ(b[1], std::byte{8});
  EXPECT_EQ(b[8], std::byte{1});
  EXPECT_EQ(load<std::uint64_t>(b.data() + 1), 0x0102030405060708u);
}

TEST(Inside, AcceptsWhatFits) {
  EXPECT_TRUE(inside(0, 0, 0));
  EXPECT_TRUE(inside(0, 10, 10));
  EXPECT_TRUE(inside(10, 0, 10));
  EXPECT_TRUE(inside(3, 7, 10));
  EXPECT_TRUE(inside(0, kMax, kMax));
  EXPECT_TRUE(inside(kMax, 0, kMax));
}

TEST(Inside, RefusesOneTooMany) {
  EXPECT_FALSE(inside(0, 1, 0));
  EXPECT_FALSE(inside(0, 11, 10));
  EXPECT_FALSE(inside(3, 8, 10));
  EXPECT_FALSE(inside(11, 0, 10));
}

TEST(Inside, DetectsASumThatWraps) {
  EXPECT_FALSE(inside(1, kMax, 10));       // 1 + kMax == 0
  EXPECT_FALSE(inside(kMax, 1, 10));       // the same from the other side
  EXPECT_FALSE(inside(kMax, kMax, kMax));  // wraps to kMax - 1, which would fit
  EXPECT_FALSE(inside(8, kMax - 3, 10));   // wraps to 4
}

TEST(RoundUp, ReturnsTheNextMultipleAndKeepsMultiples) {
  EXPECT_EQ(round_up(0, 64), 0u);
  EXPECT_EQ(round_up(1, 64), 64u);
  EXPECT_EQ(round_up(64, 64), 64u);
  EXPECT_EQ(round_up(65, 64), 128u);
  EXPECT_EQ(round_up(10, 3), 12u);
}

}  // namespace
}  // namespace braid
