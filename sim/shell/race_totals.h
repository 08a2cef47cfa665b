// The result of a check for data races: the beginning of a file in memory that the simulator and the programs of all
// clusters share. The rest of the file belongs to the programs (sim/races/detector.h).
#pragma once

#include <array>
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

// A text of a race, which ends with a 0 and is cut where it is full.
using RaceText = std::array<char, 256>;

// What a compute node did that orders its accesses with those of others.
struct RaceStep {
  RaceText what{};   // "unlocked lock 5"; empty: nothing, or it is not known any more
  RaceText where{};  // "insert at table.c:41"
};

// An access of a race, with the node's synchronisations around it.
struct RaceSide {
  RaceText kind{};  // "read", "write", "atomic access"
  std::uint16_t cluster = 0;
  std::uint16_t node = 0;  // in its cluster
  RaceText where{};
  RaceStep before;  // the last one before the access
  RaceStep after;   // the first one after it, until the race was found
};

struct Race {
  RaceSide later;
  RaceSide earlier;
  RaceText memory{};  // "at byte 24 of the 8192 bytes that were allocated in main at sum.cpp:10"
};

// Further races are counted.
inline constexpr std::uint32_t kMostShownRaces = 20;

struct RaceReport {
  RaceTotals totals;
  std::array<Race, kMostShownRaces> races;  // RaceTotals::shown of them
};
inline constexpr std::size_t kRaceReportBytes = (sizeof(RaceReport) + 4095) / 4096 * 4096;

}  // namespace braid::sim
