// How threads of a cluster wait for each other: a short lock, and a word that one thread sleeps on.
#pragma once

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/timespec.h"

namespace braid::dsm {

// Guards the cluster's page engine and network. Held for microseconds. Not a std::mutex: it is taken
// inside a fault, which can occur anywhere, and a waiter retries after other work instead of sleeping.
class CombinerLock {
 public:
  bool try_lock() {
    return word_.load(std::memory_order_relaxed) == 0 && word_.exchange(1, std::memory_order_acquire) == 0;
  }
  void lock() {
    // The holder may wait for a processor: after a few tries, yield this one.
    constexpr int kLooks = 64;
    for (int look = 0; !try_lock(); ++look) {
      if (look < kLooks) {
        _mm_pause();
      } else {
        ::sched_yield();
      }
    }
  }
  void unlock() { word_.store(0, std::memory_order_release); }

 private:
  alignas(64) std::atomic<std::uint32_t> word_{0};
};

// Whether the event that one thread waits for has happened. One thread waits; any thread signals.
//
//    begin()          park()
//   kDone -> kWaiting <-> kParked
//     ^---------'------------'     signal(): and wakes a parked thread
class Completion {
 public:
  void begin() { word_.store(kWaiting, std::memory_order_relaxed); }
  bool done() const { return word_.load(std::memory_order_acquire) == kDone; }
  // Sleeps until signal() or for `timeout`; returns at once if signal() came before.
  void park(Duration timeout) {
    std::uint32_t expected = kWaiting;
    if (!word_.compare_exchange_strong(expected, kParked, std::memory_order_acq_rel)) return;
    const timespec length = to_timespec(timeout);
    ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kParked, &length, nullptr, 0);
    expected = kParked;
    word_.compare_exchange_strong(expected, kWaiting, std::memory_order_acq_rel);
  }
  void signal() {
    if (word_.exchange(kDone, std::memory_order_acq_rel) == kParked)
      ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

 private:
  static constexpr std::uint32_t kDone = 0;
  static constexpr std::uint32_t kWaiting = 1;
  static constexpr std::uint32_t kParked = 2;
  std::atomic<std::uint32_t> word_{kDone};
};

}  // namespace braid::dsm
