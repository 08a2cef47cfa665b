#include "dsm/program/lock_misuse.h"

#include <fmt/core.h>

#include "base/check.h"
#include "dsm/program/object_ids.h"

namespace braid::dsm {

std::string LockMisuse::text(unsigned node) const {
  switch (kind_) {
    case Kind::kRecursion:
      return fmt::format("compute node {} locks {}, which it has already: locks are not recursive", node,
                         name_of_lock(lock_));
    case Kind::kWantOfLock:
      return fmt::format("compute node {} unlocks {}, which it does not have", node, name_of_lock(lock_));
    case Kind::kWantOfConditionLock:
      return fmt::format("compute node {} waits for {} with {}, which it does not have", node,
                         name_of_condition(condition_), name_of_lock(lock_));
  }
  CHECK(false);
}

}  // namespace braid::dsm
