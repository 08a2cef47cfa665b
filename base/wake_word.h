// How a thread that polls rings sleeps until another thread or process writes one of them, while the writers pay
// neither a fence nor a cache line for it: one futex word for each ring, in memory that both sides share.
//
//   sleeper                                       waker
//     announce: word = asleep                       publish an entry
//     barrier (the kernel's, for both sides)        look: is the word asleep?
//     look for entries once more                    yes: word = rung; wake
//     none: wait while the word is asleep
//     withdraw: word = awake
//
// The sleeper's barrier makes every thread of every registered process execute a full fence (membarrier(2)). A
// waker whose look comes before its fence has published before it too, so the sleeper's look finds the entry; one
// whose look comes after it finds the word asleep. So the waker's own order is left to the compiler.
//
// A side that writes other values there, or none, harms nobody but itself: each word has one waker's process, and
// the kernel compares it, nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/time.h"

namespace braid {

// The order of the two sides, and nothing else: the threads run it on words, the exhaustive test on a model of a
// processor that delays its stores.

// `waker` has publish(), order(), asleep(), mark_rung() and wake().
template <class Waker>
void publish_and_wake(Waker&& waker) {
  waker.publish();
  waker.order();
  if (!waker.asleep()) [[likely]]
    return;
  waker.mark_rung();
  waker.wake();
}

// `sleeper` has announce(), barrier(), look(), wait() and withdraw(). look() returns whether there is work; wait()
// returns at once if a word is no longer asleep.
template <class Sleeper>
void sleep_until_woken(Sleeper&& sleeper) {
  sleeper.announce();
  sleeper.barrier();
  if (!sleeper.look()) sleeper.wait();
  sleeper.withdraw();
}

// The kernel's barrier between sleepers and wakers of all processes.
class WakeBarrier {
 public:
  // This process takes part. Every process that sleeps, or wakes one that does, calls it before; again at will. An
  // error: the kernel refuses, and wakers of this process execute fences of their own from now on.
  static Result<void> join();
  // A full fence in every running thread of all processes that have joined. An error: the kernel refuses.
  static Result<void> execute();
  // Between publishing an entry and looking at a word.
  static void order() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (refused_.load(std::memory_order_relaxed)) [[unlikely]]
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  static inline std::atomic<bool> refused_{false};
};

// Zero at first. In memory that the sleeper and its wakers share.
class WakeWord {
 public:
  // --- the sleeper
  void announce() { word_.store(kAsleep, std::memory_order_relaxed); }
  void withdraw() { word_.store(kAwake, std::memory_order_relaxed); }
  // A waker has rung since announce().
  bool rung() const { return word_.load(std::memory_order_relaxed) == kRung; }

  // --- wakers
  bool asleep() const { return word_.load(std::memory_order_relaxed) == kAsleep; }
  // Ends the sleep of whoever waits on the word, or is about to.
  void ring() {
    mark_rung();
    wake();
  }
  void mark_rung() { word_.store(kRung, std::memory_order_relaxed); }
  void wake();
  // The waker's part after it has published.
  void ring_if_asleep() { publish_and_wake(Published{*this}); }

 private:
  friend class WakeWait;
  struct Published {
    WakeWord& word;
    void publish() {}
    void order() { WakeBarrier::order(); }
    bool asleep() { return word.asleep(); }
    void mark_rung() { word.mark_rung(); }
    void wake() { word.wake(); }
  };
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;
  static constexpr std::uint32_t kRung = 2;
  std::atomic<std::uint32_t> word_{kAwake};
};
static_assert(sizeof(WakeWord) == 4);

// Waits on many words at once (futex_waitv(2)).
class WakeWait {
 public:
  static constexpr std::size_t kMaxWords = 128;  // of the system call

  enum class Outcome : std::uint8_t { kWoken, kTimeout, kInterrupted, kRefused };
  // Until one of the words is rung, or is not asleep, or until `deadline`. At most kMaxWords.
  static Outcome wait(std::span<WakeWord* const> words, Instant deadline);
  // An error: what the kernel lacks or refuses.
  static Result<void> probe();
};

}  // namespace braid
