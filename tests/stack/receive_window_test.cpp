// The receiving window on its own, and its acknowledgement words against a plain model.
#include "stack/window/receive_window.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/prng.h"

namespace braid::stack {
namespace {

// The numbers of the packets that the words name.
std::vector<std::uint32_t> named(const ReceiveWindow& window) {
  std::uint64_t words[kMaxSackWords] = {~0ull, ~0ull, ~0ull, ~0ull};
  const std::uint8_t used = window.sack(words);
  std::vector<std::uint32_t> out;
  for (std::uint32_t w = 0; w < used; ++w)
    for (std::uint32_t b = 0; b < 64; ++b)
      if ((words[w] >> b & 1) != 0) out.push_back((window.edge() + 1 + 64 * w + b).value());
  return out;
}

using Numbers = std::vector<std::uint32_t>;

TEST(ReceiveWindow, EdgeMovesOverPacketsDeliveredBefore) {  // SW-1, SW-2
  ReceiveWindow w;
  w.delivered(Seq(0));
  EXPECT_EQ(w.edge(), Seq(1));
  EXPECT_FALSE(w.has_hole());
  w.delivered(Seq(2));
  w.delivered(Seq(3));
  EXPECT_EQ(w.edge(), Seq(1));
  EXPECT_TRUE(w.has_hole());
  EXPECT_EQ(named(w), (Numbers{2, 3}));
  w.delivered(Seq(1));
  EXPECT_EQ(w.edge(), Seq(4));
  EXPECT_FALSE(w.has_hole());
  EXPECT_EQ(named(w), Numbers{});
}

TEST(ReceiveWindow, ClassifiesDuplicatesAndPacketsBeyondTheWindow) {  // SW-1
  ReceiveWindow w;
  w.delivered(Seq(0));
  w.delivered(Seq(5));
  EXPECT_EQ(w.classify(Seq(0)), PacketArrival::kDuplicate);
  EXPECT_EQ(w.classify(Seq(5)), PacketArrival::kDuplicate);
  EXPECT_EQ(w.classify(Seq(4)), PacketArrival::kNew);
  EXPECT_EQ(w.classify(Seq(ReceiveWindow::kWindow)), PacketArrival::kNew);
  EXPECT_EQ(w.classify(Seq(ReceiveWindow::kWindow + 1)), PacketArrival::kBeyondWindow);
  EXPECT_EQ(w.classify(Seq(0xffff'ffff)), PacketArrival::kDuplicate) << "long before the edge";
  EXPECT_EQ(w.classify(Seq(0x7fff'ffff)), PacketArrival::kBeyondWindow);
}

TEST(ReceiveWindow, ClassifyChangesNothing) {  // SW-1
  ReceiveWindow w;
  EXPECT_EQ(w.classify(Seq(0)), PacketArrival::kNew);
  EXPECT_EQ(w.classify(Seq(0)), PacketArrival::kNew);
  EXPECT_EQ(w.edge(), Seq(0));
}

TEST(ReceiveWindow, FullWindowBehindAHoleIsAcknowledgedInFull) {  // SW-2
  ReceiveWindow w;
  Numbers all;
  for (std::uint32_t s = 1; s < ReceiveWindow::kWindow; ++s) {
    w.delivered(Seq(s));
    all.push_back(s);
  }
  EXPECT_EQ(named(w), all);
  w.delivered(Seq(0));
  EXPECT_EQ(w.edge(), Seq(ReceiveWindow::kWindow));
  EXPECT_EQ(named(w), Numbers{});
}

// Random arrivals inside the window, compared with sets of numbers after every one.
TEST(ReceiveWindow, AgreesWithAModelAcrossTheWrapOfNumbers) {  // SW-1, SW-2
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const double jump = prng.uniform() * 0.3;
    const std::uint32_t first = 0u - static_cast<std::uint32_t>(prng.below(600));
    ReceiveWindow w{Seq(first)};
    // Counted from `first`, in 64 bits.
    std::uint64_t edge = 0;
    std::set<std::uint64_t> beyond;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t number =
          prng.chance(jump) ? edge + prng.below(ReceiveWindow::kWindow) : edge + prng.below(4);
      const Seq seq = Seq(first) + static_cast<std::uint32_t>(number);
      const bool known = beyond.contains(number);
      ASSERT_EQ(w.classify(seq), known ? PacketArrival::kDuplicate : PacketArrival::kNew) << number;
      if (known) continue;
      w.delivered(seq);
      beyond.insert(number);
      while (beyond.contains(edge)) beyond.erase(edge++);
      ASSERT_EQ(w.edge(), Seq(first) + static_cast<std::uint32_t>(edge));
      Numbers expected;
      for (const std::uint64_t n : beyond) expected.push_back(first + static_cast<std::uint32_t>(n));
      ASSERT_EQ(named(w), expected);
      ASSERT_EQ(w.has_hole(), !beyond.empty());
      ASSERT_EQ(w.classify(w.edge() - 1), PacketArrival::kDuplicate);
    }
    EXPECT_GT(edge, 600u);
  }
}

}  // namespace
}  // namespace braid::stack
