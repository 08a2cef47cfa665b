// Counters that explain what a thread did. Other processes can read them while it runs and after it ended.
//
// A block of counters is a plain struct of Counter members in memory shared with the readers. One thread
// writes a block; anybody may read it. Writing costs a load, an add and a store: no lock, no locked
// instruction.
#pragma once

#include <atomic>
#include <cstdint>

namespace braid {

class Counter {
 public:
  // Owner's thread only.
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  void raise_to(std::uint64_t n) {
    if (n > get()) set(n);
  }
  // Any thread, any process.
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace braid
