// The plan of a run, made before anything is started: each daemon's configuration, each application's
// environment, the wires between them. Pure: the supervisor fills in the descriptors.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "proxy/daemon/node_config.h"
#include "proxy/nic/shm_wire.h"
#include "settings/run.h"

namespace braid::cli {

// Two clusters that a wire joins, first < second; the first is side A, or the memif server.
struct Pair {
  unsigned first;
  unsigned second;
};
std::vector<Pair> all_pairs(unsigned clusters);

// As many frames per ring as a modest part of the machine's memory allows: large machines get short rings.
Result<proxy::ShmWireOptions> plan_wire(const settings::RunConfig& config);

// One for each cluster. `run` is a name that no other run on this host has; `cores` decides what idle.spins
// auto means. Descriptors are left out, except that link i of cluster k leads to its i-th peer in ascending
// order.
std::vector<proxy::NodeConfig> plan_nodes(const settings::RunConfig& config, const std::string& run,
                                          unsigned cores);

// The variables that are added to an application process's environment.
using Environment = std::vector<std::pair<std::string, std::string>>;
Environment plan_environment(const settings::RunConfig& config, unsigned cluster, const std::string& service,
                             int report_fd, int pulse_fd = -1);

// `inherited` (environ) without variables that begin with BRAID_, and `added`: NAME=value.
std::vector<std::string> merge_environment(const char* const* inherited, const Environment& added);

}  // namespace braid::cli
