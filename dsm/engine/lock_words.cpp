#include "dsm/engine/lock_words.h"

#include <bit>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::dsm {

LockWords::LockWords(std::uint32_t words) : words_(words) {
  CHECK(words == 0 || std::has_single_bit(words));
}

std::optional<LockWords::OpenLock> LockWords::unpacked(LockId lock, std::uint64_t word) {
  if ((word & kOpen) == 0 || word >> 32 != lock.value()) return std::nullopt;
  const auto holder = static_cast<std::uint16_t>(word & kHolder);
  return OpenLock{.holder = holder == (kNobody & kHolder) ? kNobody : holder,
                  .freed = (word & kFreed) != 0,
                  .uses_left = uses_left(word)};
}

std::optional<LockWords::OpenLock> LockWords::close(LockId lock) {
  // Only the engine opens words, so one that is closed stays so.
  if (!look(lock)) return std::nullopt;
  std::atomic<std::uint64_t>& word = word_of(lock);
  if (mutant(Mutant::kWordStaysOpen)) return unpacked(lock, word.load());
  return unpacked(lock, word.exchange(0, std::memory_order_acquire));
}

std::optional<LockId> LockWords::in_place_of(LockId lock) const {
  const std::uint64_t word = word_of(lock).load(std::memory_order_relaxed);
  const LockId other(static_cast<std::uint32_t>(word >> 32));
  if ((word & kOpen) == 0 || other == lock) return std::nullopt;
  return other;
}

void LockWords::open(LockId lock, const OpenLock& state) {
  CHECK_LE(state.uses_left, kUnbounded);
  std::atomic<std::uint64_t>& word = word_of(lock);
  word.store(packed_id_and_holder(lock, state.holder) | (state.freed ? kFreed : 0) |
                 std::uint64_t{state.uses_left} * kOneUse,
             std::memory_order_release);
}

}  // namespace braid::dsm
