#include "dsm/program/lock_misuse.h"

#include <fmt/core.h>

#include "base/check.h"

namespace braid::dsm {

std::string LockMisuse::text(unsigned node) const {
  switch (kind_) {
    case Kind::kRecursion:
      return fmt::format("compute node {} locks lock {}, which it has already: locks are not recursive", node,
                         lock_.value());
    case Kind::kWantOfLock:
      return fmt::format("compute node {} unlocks lock {}, which it does not have", node, lock_.value());
    case Kind::kWantOfConditionLock:
      return fmt::format("compute node {} waits for condition {} with lock {}, which it does not have", node,
                         condition_, lock_.value());
  }
  CHECK(false);
}

}  // namespace braid::dsm
