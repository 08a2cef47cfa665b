// Converts between the two times of a simulation. Events happen at Instants. Each compute
// node has a clock that counts the cycles that its program has computed or waited.
#pragma once

#include <cstdint>
#include <limits>

#include "base/time.h"

namespace braid::sim {

class ClockRate {
 public:
  // A clock value that is never reached: Instant::never().
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  explicit ClockRate(std::int64_t cycles_per_second) : per_second_(cycles_per_second) {}

  std::int64_t cycles_per_second() const { return per_second_; }

  // Rounded up: a node whose clock shows the result has reached at least `at`.
  std::int64_t to_cycles(Instant at) const {
    if (at == Instant::never()) return kNever;
    const auto scaled = static_cast<__int128>(at.ns()) * per_second_;
    return static_cast<std::int64_t>((scaled + 999'999'999) / 1'000'000'000);
  }

  // Rounded down.
  Instant to_instant(std::int64_t cycles) const {
    return Instant::from_ns(
        static_cast<std::int64_t>(static_cast<__int128>(cycles) * 1'000'000'000 / per_second_));
  }

 private:
  std::int64_t per_second_;
};

}  // namespace braid::sim
