// `braid counters`: a node's counters while it runs, read from shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

// The values of a counter, by proxy, of the node whose braidd listens at `service`.
Result<std::vector<std::uint64_t>> counter_by_proxy(const std::string& service, const std::string& name);

Subcommand counters_command();

}  // namespace braid::cli
