#include "sim/clock_rate.h"

#include <gtest/gtest.h>

namespace braid::sim {
namespace {

TEST(ClockRate, CyclesAreRoundedUpAndInstantsDown) {
  const ClockRate rate(300'000'000);  // 3.33 ns a cycle
  EXPECT_EQ(rate.to_cycles(Instant::from_ns(10)), 3);
  EXPECT_EQ(rate.to_cycles(Instant::from_ns(11)), 4);
  EXPECT_EQ(rate.to_instant(1), Instant::from_ns(3));
  EXPECT_EQ(rate.to_instant(3), Instant::from_ns(10));
}

// A node that has come to an instant's clock is never before the instant.
TEST(ClockRate, ThereAndBackIsNeverLater) {
  for (const std::int64_t hertz : {20'000'000ll, 333'333'333ll, 2'500'000'000ll}) {
    const ClockRate rate(hertz);
    for (std::int64_t cycles = 0; cycles < 10'000; cycles += 7) {
      const Instant at = rate.to_instant(cycles);
      EXPECT_LE(rate.to_cycles(at), cycles);
      EXPECT_GE(rate.to_instant(rate.to_cycles(at)) + Duration::ns(1), at);
    }
  }
}

TEST(ClockRate, NeverStaysNever) {
  EXPECT_EQ(ClockRate(1).to_cycles(Instant::never()), ClockRate::kNever);
}

TEST(ClockRate, LongTimesDoNotOverflow) {
  const ClockRate rate(5'000'000'000);
  const Instant day = Instant() + Duration::s(86'400);
  EXPECT_EQ(rate.to_cycles(day), 432'000'000'000'000);
  EXPECT_EQ(rate.to_instant(432'000'000'000'000), day);
}

}  // namespace
}  // namespace braid::sim
