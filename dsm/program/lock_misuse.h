// Wrong uses of locks by programs, and the messages for them. A host checks before it makes
// the call, and a simulated machine checks requests that a shell has made nevertheless.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class LockMisuse {
 public:
  // nullopt: the call is allowed. `has`: the compute node has the lock.
  static std::optional<LockMisuse> of_lock(LockId lock, bool has) {
    if (!has) return std::nullopt;
    return LockMisuse(Kind::kRecursion, lock);
  }
  static std::optional<LockMisuse> of_unlock(LockId lock, bool has) {
    if (has) return std::nullopt;
    return LockMisuse(Kind::kWantOfLock, lock);
  }
  // `has(lock)` is called only if the call needs a lock.
  template <class Has>
  static std::optional<LockMisuse> of_sync(const SyncCall& call, Has&& has) {
    if (call.op != SyncOp::kConditionWait || has(call.lock)) return std::nullopt;
    return LockMisuse(Kind::kWantOfConditionLock, call.lock, call.id);
  }

  // For example "compute node 3 unlocks lock 5, which it does not have"; `node` is its number in the machine.
  std::string text(unsigned node) const;

 private:
  enum class Kind : std::uint8_t { kRecursion, kWantOfLock, kWantOfConditionLock };
  LockMisuse(Kind kind, LockId lock, std::uint32_t condition = 0)
      : kind_(kind), lock_(lock), condition_(condition) {}

  Kind kind_;
  LockId lock_;
  std::uint32_t condition_;
};

}  // namespace braid::dsm
