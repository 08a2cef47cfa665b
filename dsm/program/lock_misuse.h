// What programs do wrong with locks: which calls may not be made, and the words in which that is told,
// whoever finds it: a host before it makes the call, or a simulated machine that got it all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class LockMisuse {
 public:
  // Nothing: the call may be made. `has`: the compute node has the lock.
  static std::optional<LockMisuse> of_lock(LockId lock, bool has) {
    if (!has) return std::nullopt;
    return LockMisuse(Kind::kRecursion, lock);
  }
  static std::optional<LockMisuse> of_unlock(LockId lock, bool has) {
    if (has) return std::nullopt;
    return LockMisuse(Kind::kWantOfLock, lock);
  }
  // `has(lock)` is asked only for calls that need one.
  template <class Has>
  static std::optional<LockMisuse> of_sync(const SyncCall& call, Has&& has) {
    if (call.op != SyncOp::kConditionWait || has(call.lock)) return std::nullopt;
    return LockMisuse(Kind::kWantOfConditionLock, call.lock, call.id);
  }

  // "compute node 3 unlocks lock 5, which it does not have"; `node` is the number of the whole machine's.
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
