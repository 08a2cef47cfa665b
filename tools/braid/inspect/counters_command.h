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

// The sums over all proxies of that node, for each protocol.
struct ProtocolTotals {
  std::string protocol;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t refused = 0;
  std::uint64_t returned = 0;
};
Result<std::vector<ProtocolTotals>> protocol_totals(const std::string& service);

}  // namespace braid::cli
