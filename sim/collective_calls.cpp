#include "sim/collective_calls.h"

#include <cstdint>

#include "base/check.h"

namespace braid::sim {

Result<bool> CollectiveCalls::join(ClusterId cluster, const dsm::CollectiveCall& call) {
  CHECK(!has_joined_[cluster.value()]);
  any_ = true;
  has_joined_[cluster.value()] = true;
  calls_[cluster.value()] = call;
  if (--missing_ > 0) return false;
  for (std::uint16_t other = 1; other < calls_.size(); ++other)
    if (!(calls_[0] == calls_[other])) return Error{dsm::difference(0, calls_[0], other, calls_[other])};
  missing_ = calls_.size();
  has_joined_.assign(has_joined_.size(), false);
  return true;
}

}  // namespace braid::sim
