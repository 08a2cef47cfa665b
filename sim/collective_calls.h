// The calls that all clusters make together: which clusters have come to the next one, and whether all of
// them mean the same.
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
  explicit CollectiveCalls(std::size_t clusters) : calls_(clusters), has_come_(clusters) {}

  // A cluster makes a call, which is its next one. True: all have come, and the call is made; the next one
  // begins. An error says what two of them call differently.
  Result<bool> come(ClusterId cluster, const dsm::CollectiveCall& call);

 private:
  std::vector<dsm::CollectiveCall> calls_;  // of the next call, by cluster
  std::vector<bool> has_come_;              // by cluster
  std::size_t missing_ = calls_.size();
};

}  // namespace braid::sim
