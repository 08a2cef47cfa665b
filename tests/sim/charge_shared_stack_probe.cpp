// Compiled with -fplugin-arg-braid_charge-shared-stacks.
#include <array>
#include <cstddef>

#include "tests/sim/charge_probes.h"

namespace braid::sim::testing {

std::int64_t walk(std::int64_t depth, std::int64_t seed) {
  std::array<volatile std::int64_t, 8> kept{};
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = seed * static_cast<std::int64_t>(i + 1) + depth;
  if (depth == 0) return seed;
  const std::int64_t below = walk(depth - 1, kept[static_cast<std::size_t>(depth % 8)] ^ seed);
  return below + kept[static_cast<std::size_t>((depth + 3) % 8)];
}

}  // namespace braid::sim::testing
