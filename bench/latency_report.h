// The output of a benchmark of latencies: a line for each operation, files of percentiles, figures as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/against.h"
#include "bench/round_trips.h"

namespace braid::bench {

// In the order of the lines. The operations live longer.
using NamedOperations = std::vector<std::pair<std::string, const Operation*>>;

// A head, and a line for each: percentiles, those corrected for coordinated omission by the median, and the gaps. In µs.
void print_latencies(const std::string& what, const NamedOperations& operations);

// {"p50": .., "p99": .., "p99.9": ..}, in µs.
nlohmann::json percentiles_json(const Operation& operation);
// {"NAME": percentiles_json(), ...}
nlohmann::json percentiles_json(const NamedOperations& operations);

// Writes what the options ask for: `figures` as JSON; and in the folder two files for each operation, NAME.hgrm and, corrected
// for coordinated omission, NAME.corrected.hgrm, with '-' where the name has other characters than letters, digits and dots.
// False: `program` could not, and has said why.
bool write_output(const char* program, const OutputOptions& options, const nlohmann::json& figures,
                  const NamedOperations& operations);

}  // namespace braid::bench
