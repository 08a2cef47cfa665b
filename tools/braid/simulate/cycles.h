// Durations of a simulated machine in cycles, for reports.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace braid::cli {

// Rounded to the nearest cycle.
inline std::int64_t to_cycles(Duration d, double cycles_per_second) {
  return static_cast<std::int64_t>(static_cast<double>(d.ns()) * cycles_per_second / 1e9 + 0.5);
}

}  // namespace braid::cli
