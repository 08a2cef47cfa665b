// The earliest of many clusters' clocks is the one that a look at all of them finds.
#include "sim/cluster_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"

namespace braid::sim {
namespace {

TEST(ClusterClocks, AgreesWithALookAtAll) {
  for (const std::size_t clusters : {1u, 2u, 3u, 8u, 100u}) {
    ClusterClocks clocks(clusters);
    std::vector<std::int64_t> all(clusters, ClockRate::kNever);
    Prng prng(clusters);
    for (int step = 0; step < 2000; ++step) {
      const std::size_t k = prng.below(clusters);
      all[k] =
          prng.below(4) == 0 ? ClockRate::kNever : static_cast<std::int64_t>(prng.below(50));  // often equal
      clocks.set(k, all[k]);
      const auto first = std::ranges::min_element(all);
      ASSERT_EQ(clocks.earliest(), *first) << clusters << " clusters, step " << step;
      const auto index = static_cast<std::size_t>(first - all.begin());
      if (*first == ClockRate::kNever)
        ASSERT_FALSE(clocks.first().has_value());
      else
        ASSERT_EQ(clocks.first(), index);
      std::int64_t other = ClockRate::kNever;
      for (std::size_t i = 0; i < clusters; ++i)
        if (i != k) other = std::min(other, all[i]);
      ASSERT_EQ(clocks.earliest_but(k), other);
    }
  }
}

}  // namespace
}  // namespace braid::sim
