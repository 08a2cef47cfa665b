#include "sim/collective_calls.h"

#include <cstdint>

#include "base/check.h"

namespace braid::sim {

Result<bool> CollectiveCalls::come(ClusterId cluster, const dsm::CollectiveCall& call) {
  CHECK(!has_come_[cluster.value()]);
  has_come_[cluster.value()] = true;
  calls_[cluster.value()] = call;
  if (--missing_ > 0) return false;
  for (std::uint16_t other = 1; other < calls_.size(); ++other)
    if (!(calls_[0] == calls_[other])) return Error{dsm::difference(0, calls_[0], other, calls_[other])};
  missing_ = calls_.size();
  has_come_.assign(has_come_.size(), false);
  return true;
}

}  // namespace braid::sim
