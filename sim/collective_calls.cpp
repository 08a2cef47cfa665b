#include "sim/collective_calls.h"

#include <cstdint>

#include "base/check.h"

namespace braid::sim {

Result<bool> CollectiveCalls::come(ClusterId cluster, const dsm::CollectiveCall& facts) {
  CHECK(!has_come_[cluster.value()]);
  has_come_[cluster.value()] = true;
  facts_[cluster.value()] = facts;
  if (--missing_ > 0) return false;
  for (std::uint16_t other = 1; other < facts_.size(); ++other)
    if (!(facts_[0] == facts_[other])) return Error{dsm::difference(0, facts_[0], other, facts_[other])};
  missing_ = facts_.size();
  has_come_.assign(has_come_.size(), false);
  return true;
}

}  // namespace braid::sim
