// The collective calls of a simulated machine: which clusters have
// made the next one, and whether all of them made the same call.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "dsm/program/collective_call.h"
#include "sim/shell/control.h"

namespace braid::sim {

class CollectiveCalls {
 public:
  explicit CollectiveCalls(std::size_t clusters) : calls_(clusters), has_joined_(clusters) {}

  // Whether any cluster has made a call.
  bool any() const { return any_; }
  // A cluster makes its next call. True: all clusters have made it, so it is carried out,
  // and the next one begins. An error names two clusters and how their calls differ.
  Result<bool> join(ClusterId cluster, const dsm::CollectiveCall& call);

 private:
  std::vector<dsm::CollectiveCall> calls_;  // the next call, by cluster
  std::vector<bool> has_joined_;            // by cluster
  std::size_t missing_ = calls_.size();
  bool any_ = false;
};

}  // namespace braid::sim
