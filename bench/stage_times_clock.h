// How short things are timed: in rows between two looks at the clock, of which the median is taken.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "bench/two_processes.h"

namespace braid::bench {

// Of messages between which costs per byte are taken: both fit one frame of a shm wire.
inline constexpr std::uint32_t kShort = 64;
inline constexpr std::uint32_t kLong = 4096;
// Calls in a row between two looks at the clock, for what takes less than the look.
inline constexpr int kRow = 128;

// Results must not be optimised away, nor loops be moved out of.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

inline double ns_between(Instant begin, Instant end) {
  return static_cast<double>((end - begin).ns());
}

// The time that one reading of the clock adds to the interval between two readings.
inline double clock_ns() {
  std::vector<double> times;
  for (int i = 0; i < 1001; ++i) {
    const Instant begin = monotonic_now();
    times.push_back(ns_between(begin, monotonic_now()));
  }
  return median(times);
}

// The median over `samples` rows of one call of body(i) among `times` in a row.
template <class Body>
double ns_each(unsigned samples, int times, Body&& body) {
  std::vector<double> rows;
  for (unsigned s = 0; s < samples; ++s) {
    const Instant begin = monotonic_now();
    for (int i = 0; i < times; ++i) body(i);
    rows.push_back(ns_between(begin, monotonic_now()) / times);
  }
  return median(rows);
}

}  // namespace braid::bench
