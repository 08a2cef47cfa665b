// Sums that do not depend on the order of their terms.
#pragma once

#include <cmath>
#include <cstdint>

namespace braid::apps {

// A sum whose terms are rounded to the same fine grid before they are added: the order of the additions does
// not matter, so however many add to it, the result is the same to the last bit. Terms are of some thousands and sums of
// some millions at most: 2^31 fits. All bytes 0: the sum 0.
class Sum {
 public:
  static Sum of(double term) {
    Sum sum;
    sum.add(term);
    return sum;
  }
  void add(double term) { grid_points_ += to_grid(term); }
  void add(const Sum& other) { grid_points_ += other.grid_points_; }
  void subtract(const Sum& other) { grid_points_ -= other.grid_points_; }
  double value() const { return static_cast<double>(grid_points()) / kPointsPerUnit; }
  // The exact number of grid points, which a reduction can add.
  std::int64_t grid_points() const { return static_cast<std::int64_t>(grid_points_); }
  static Sum of_grid_points(std::int64_t points) {
    Sum sum;
    sum.grid_points_ = static_cast<std::uint64_t>(points);
    return sum;
  }
  bool operator==(const Sum&) const = default;

 private:
  static constexpr double kPointsPerUnit = 0x1.0p32;
  static std::uint64_t to_grid(double term) {
    return static_cast<std::uint64_t>(std::llrint(term * kPointsPerUnit));
  }
  std::uint64_t grid_points_ = 0;  // two's complement, which may wrap around
};

}  // namespace braid::apps
