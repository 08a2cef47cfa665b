// The result of a check for data races: the beginning of a file in memory that the simulator and the programs of all
// clusters share. The rest of the file belongs to the programs (sim/races/detector.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::sim {

namespace variable {
// Environment variable with the number of the file's descriptor, which a program inherits.
inline constexpr const char* kRacesFd = "BRAID_SIM_RACES_FD";
}  // namespace variable

// Only the process that has the baton writes.
struct RaceTotals {
  std::uint64_t checks =
      0;  // accesses to shared memory that were checked; 0: the program was not built for checks
  std::uint32_t races = 0;     // pairs of places
  std::uint32_t shown = 0;     // of them, those that were reported in full
  bool is_incomplete = false;  // the table of accesses was full
};
inline constexpr std::size_t kRaceTotalsBytes = 4096;

}  // namespace braid::sim
