// The compute nodes of this cluster in the engine: what each waits for, and its counters.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "dsm/engine/scan.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

enum class Wait : std::uint8_t {
  kNothing,
  kFetch,  // for the page from its home, or for this cluster's own flush of it that must come first
  kTwin,   // for a free twin
  kLock,
  kBarrier,
  kSync,        // for a variable's home, or for another node's operation there
  kAllocation,  // for cluster 0
  kRelease,     // before it frees a lock: for the cluster's writes
};

struct ComputeNode {
  Wait wait = Wait::kNothing;
  Access wanted = Access::kNone;           // kFetch, kTwin
  PageId page{0};                          // kFetch, kTwin
  std::uint32_t sync = 0;                  // kLock, kBarrier, kSync, kRelease: which; kAllocation: pages
  std::uint16_t next = 0;                  // kLock: the node behind this one, if any (locks.cpp)
  bool trying = false;                     // kLock: it goes on without the lock when that is taken
  Reduction reduction = Reduction::kNone;  // kBarrier; afterwards what all nodes called
  std::uint64_t value = 0;                 // kBarrier: the node's operand
  SyncCall call;                           // kSync
  Homes homes;                             // kAllocation
  bool call_sent = false;                  // kSync, kAllocation: the request has left
  bool call_registered = false;            // kSync, a wait for a condition: it is in the queue
  bool call_answered = false;              // kSync: the result is here
  std::uint64_t result = 0;                // of the last barrier, sync, allocation or try for a lock
  Scans scans;
  std::uint64_t taken_before = 0;  // TakenLocks when the scans were used last
  NodeCounts counts;
};

using ComputeNodes = std::vector<ComputeNode>;

// The number in the machine of a cluster's compute node.
inline std::uint32_t global_node(const EngineConfig& config, ClusterId cluster, std::uint32_t node) {
  return std::uint32_t{cluster.value()} * config.compute_nodes + node;
}
inline std::uint32_t global_node(const EngineConfig& config, std::uint16_t node) {
  return global_node(config, config.cluster, node);
}
// The inverse: the cluster, and the number in that cluster.
inline ClusterId cluster_of(const EngineConfig& config, std::uint32_t global_node) {
  return ClusterId(static_cast<std::uint16_t>(global_node / config.compute_nodes));
}
inline std::uint32_t local_node(const EngineConfig& config, std::uint32_t global_node) {
  return global_node % config.compute_nodes;
}

// The cluster that manages this number: a lock's manager, a barrier's
// root, a variable's home, and the home of a page that was never placed.
inline ClusterId keeper(const EngineConfig& config, std::uint32_t id) {
  return ClusterId(static_cast<std::uint16_t>(id % config.clusters));
}

}  // namespace braid::dsm
