// The figures of a run of transport_bench, the goals that they are held against, and both as text and JSON.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/transport/system.h"

namespace braid::bench {

// By system and test, one for each round: µs of a round trip, or millions of messages in a second.
using Figures = std::map<std::string, std::map<Test, std::vector<double>>>;

// `systems`: their names, in the order of the lines.
void print(const Figures& figures, const std::vector<std::string>& systems, int rounds);
nlohmann::json json_of(const Figures& figures);
// Of the rounds with a third process; puts them into `json` too.
void print_busy(const Figures& quiet, const Figures& busy, nlohmann::json& json);

}  // namespace braid::bench
