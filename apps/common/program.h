// The common parts of these programs: exact comparisons, and a verdict on which all clusters agree.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include "dsm/api.h"

namespace braid::apps {

// The same bits: results of the same operations in the same order, so nothing less will do. (It also tells -0
// from 0, and compares NaN.)
inline bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Compares n x n elements; prints the first difference.
inline bool matches(std::size_t n, std::span<const double> result, std::span<const double> expected) {
  for (std::size_t i = 0; i < n * n; ++i) {
    if (same_bits(result[i], expected[i])) continue;
    std::printf("WRONG: element (%zu, %zu) is %.17g, should be %.17g\n", i / n, i % n, result[i],
                expected[i]);
    return false;
  }
  return true;
}

// Whether the program's result is right, as one cluster's initial thread found and all clusters' processes
// report.
class Verdict {
 public:
  // Every cluster's initial thread, outside parallel().
  Verdict() : wrong_(dsm::allocate<int>(1, dsm::Placement::on(0))) {}
  // Cluster 0's initial thread, outside parallel().
  void give(bool right) { *wrong_ = right ? 0 : 1; }
  // Every cluster's initial thread: the exit status of the program.
  int status() const {
    dsm::parallel([](dsm::Node&) {});  // what cluster 0 found reaches all
    return *wrong_;
  }

 private:
  int* wrong_;
};

}  // namespace braid::apps
