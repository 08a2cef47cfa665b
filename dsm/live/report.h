// The report of a cluster's runtime at its end: counts of its compute nodes, of its page engine and of its
// endpoint, and what its nodes waited for most, as the JSON that `braid run` puts into its closing report.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dsm/engine/types.h"
#include "dsm/live/network.h"
#include "dsm/live/node_costs.h"
#include "dsm/live/written_globals.h"

namespace braid::dsm {

// Time that one compute node spent in the runtime. Written by the node's thread.
struct NodeTimes {
  std::int64_t faults_ns = 0;
  std::int64_t locks_ns = 0;  // of calls that had to wait
  std::int64_t barriers_ns = 0;
  std::int64_t syncs_ns = 0;
};

struct NodeReport {
  std::uint32_t node = 0;  // of the machine
  NodeCounts counts;
  NodeTimes times;
  const NodeCosts* costs = nullptr;
};

// What was counted before reset_figures().
struct CountsBefore {
  ClusterCounts cluster;
  NetworkCounts endpoint;
  std::vector<CounterValues> proxies;  // empty: it was not called
};

// `protection`: how accesses to the heap are forbidden (memory.h). `parallel`: the time in parallel(), since reset_figures() if it
// was called.
std::string report_json(std::uint16_t cluster, const char* protection, Duration parallel,
                        std::span<const NodeReport> nodes, const ClusterCounts& cluster_counts,
                        const NetworkCounts& endpoint, const CountsBefore& before,
                        const WrittenGlobals& globals);

}  // namespace braid::dsm
