// The words of open locks. A lock is open while its token is in this cluster and nothing else is to be done at an unlock: a
// compute node's own thread takes and frees it by one atomic operation on the lock's word, without the combiner lock. The
// engine opens words, and closes a lock's word before it does anything else with the lock: while a word is open, it, and not
// the engine, knows who has the lock. LK-12 in docs/protocol_dsm.md.
//
// A lock's number determines its place in the table. Locks that share one are open in turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "dsm/engine/types.h"

namespace braid::dsm {

class LockWords {
 public:
  // No compute node.
  static constexpr std::uint16_t kNobody = 0xffff;
  // As OpenLock::uses_left: any number. Bounds are smaller.
  static constexpr std::uint32_t kUnbounded = (1u << 22) - 1;

  // What an open word tells.
  struct OpenLock {
    std::uint16_t holder = kNobody;  // compute node
    bool freed = false;              // by a node, since the word is open
    std::uint32_t uses_left =
        kUnbounded;  // how often nodes may take it until the engine must hear of an unlock
    bool operator==(const OpenLock&) const = default;
  };

  // `words`: a power of two, or 0: then no lock is ever open.
  explicit LockWords(std::uint32_t words);

  // --- Any compute node's thread, without the combiner lock.

  // The lock is open and free: `node` has it now. False: it may be so, but ask the engine.
  bool take(std::uint16_t node, LockId lock) {
    if (words_.empty()) return false;
    std::atomic<std::uint64_t>& word = word_of(lock);
    std::uint64_t now = word.load(std::memory_order_relaxed);
    if ((now & ~kUsesAndFreed) != packed_id_and_holder(lock, kNobody)) return false;
    const std::uint64_t use = uses_left(now) == kUnbounded ? 0 : kOneUse;
    // Sees what was written under the lock.
    return word.compare_exchange_strong(now, with_holder(now, node) - use, std::memory_order_acquire,
                                        std::memory_order_relaxed);
  }
  // The lock is open and `node` has it: now no node has it. False: it may be so, but the engine must hear of the unlock.
  bool free(std::uint16_t node, LockId lock) {
    if (words_.empty()) return false;
    std::atomic<std::uint64_t>& word = word_of(lock);
    std::uint64_t now = word.load(std::memory_order_relaxed);
    if ((now & ~kUsesAndFreed) != packed_id_and_holder(lock, node) || uses_left(now) == 0) return false;
    return word.compare_exchange_strong(now, with_holder(now, kNobody) | kFreed, std::memory_order_release,
                                        std::memory_order_relaxed);
  }

  // --- With the combiner lock.

  bool any() const { return !words_.empty(); }
  // nullopt: it is not open. Without the word's being closed the answer may be old at once.
  std::optional<OpenLock> look(LockId lock) const {
    if (words_.empty()) return std::nullopt;
    return unpacked(lock, word_of(lock).load(std::memory_order_acquire));
  }
  // The same; afterwards it is not open. Sees what was written under the lock.
  std::optional<OpenLock> close(LockId lock);
  // The open lock that has this one's place, if it is another one.
  std::optional<LockId> in_place_of(LockId lock) const;
  // The place is free.
  void open(LockId lock, const OpenLock& state);

 private:
  //  63       32 31        10  9       8        7      0
  // | lock's id | uses left | freed | is open | holder |
  static constexpr std::uint64_t kHolder = 0xff, kOpen = 1u << 8, kFreed = 1u << 9, kOneUse = 1u << 10;
  static constexpr std::uint64_t kUses = std::uint64_t{kUnbounded} << 10;
  static constexpr std::uint64_t kUsesAndFreed = kUses | kFreed;

  static std::uint32_t uses_left(std::uint64_t word) {
    return static_cast<std::uint32_t>((word & kUses) >> 10);
  }
  static std::uint64_t with_holder(std::uint64_t word, std::uint16_t holder) {
    return (word & ~kHolder) | (holder & kHolder);
  }
  static std::uint64_t packed_id_and_holder(LockId lock, std::uint16_t holder) {
    return with_holder(std::uint64_t{lock.value()} << 32 | kOpen, holder);
  }
  static std::optional<OpenLock> unpacked(LockId lock, std::uint64_t word);

  // Multiplicative: neighbours lie apart, in other cache lines.
  std::size_t place(LockId lock) const {
    return (lock.value() * 0x9e37'79b9'7f4a'7c15u >> 32) & (words_.size() - 1);
  }
  std::atomic<std::uint64_t>& word_of(LockId lock) { return words_[place(lock)]; }
  const std::atomic<std::uint64_t>& word_of(LockId lock) const { return words_[place(lock)]; }

  std::vector<std::atomic<std::uint64_t>> words_;  // 0: nothing is open there
};

// How often each compute node has taken an open lock. A node's own thread counts, any thread reads.
class TakenLocks {
 public:
  explicit TakenLocks(std::uint16_t compute_nodes) : nodes_(compute_nodes) {}

  void count(std::uint16_t node) {
    std::atomic<std::uint64_t>& n = nodes_[node].count;
    n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  std::uint64_t of(std::uint16_t node) const { return nodes_[node].count.load(std::memory_order_relaxed); }

 private:
  // As long as a cache line, so that no two counts share one, and not aligned to it: operator new gets the memory.
  struct Node {
    std::atomic<std::uint64_t> count{0};
    std::uint64_t unused[7] = {};
  };
  std::vector<Node> nodes_;
};

}  // namespace braid::dsm
