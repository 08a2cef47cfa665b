// Which cluster's clock is the earliest, of many: a tree of minima, whose leaves are the clusters.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/clock_rate.h"

namespace braid::sim {

class ClusterClocks {
 public:
  // All have ClockRate::kNever.
  explicit ClusterClocks(std::size_t clusters)
      : leaves_(std::bit_ceil(std::max<std::size_t>(clusters, 1))),
        earliest_(2 * leaves_, ClockRate::kNever) {}

  void set(std::size_t cluster, std::int64_t clock) {
    std::size_t node = leaves_ + cluster;
    earliest_[node] = clock;
    while (node > 1) {
      node /= 2;
      const std::int64_t earliest = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
      if (earliest_[node] == earliest) return;
      earliest_[node] = earliest;
    }
  }

  // ClockRate::kNever: no cluster has a clock.
  std::int64_t earliest() const { return earliest_[1]; }
  // Whose it is; of several, the first cluster.
  std::optional<std::size_t> first() const {
    if (earliest() == ClockRate::kNever) return std::nullopt;
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (earliest_[2 * node] == earliest_[node] ? 0 : 1);
    return node - leaves_;
  }
  // The earliest of all other clusters.
  std::int64_t earliest_but(std::size_t cluster) const {
    std::int64_t earliest = ClockRate::kNever;
    for (std::size_t node = leaves_ + cluster; node > 1; node /= 2)
      earliest = std::min(earliest, earliest_[node ^ 1]);
    return earliest;
  }

 private:
  std::size_t leaves_;
  std::vector<std::int64_t> earliest_;  // node n has 2n and 2n + 1 below it; the first is 1
};

}  // namespace braid::sim
