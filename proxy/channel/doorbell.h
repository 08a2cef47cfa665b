// How a client sleeps until something arrives: one futex word in the memory it shares with the daemon.
//
// The client arms the bell, looks once more whether something has arrived, and waits; a proxy that has
// delivered something rings, which costs it a look at the word unless the bell is armed. A client that keeps
// polling leaves the bell disarmed, so waking it costs nothing. The daemon never waits on the word, so a
// client that writes nonsense there harms only itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace braid::proxy {

class Doorbell {
 public:
  // Client, any thread: from now on an arrival wakes a waiter. Look for arrivals after this and before
  // wait().
  void arm();
  // Client, any thread: arrivals are being polled for.
  void disarm() { word_.store(kPolled, std::memory_order_relaxed); }
  // Client: sleeps until a ring, wake(), or the timeout. Returns at once if the bell was rung since arm().
  // Called with the bell disarmed it sleeps until another thread arms it and it is rung, or until wake().
  void wait(Duration timeout);
  // Client, any thread: wakes every waiter.
  void wake();
  // Proxy: after publishing arrivals.
  void ring();

 private:
  static constexpr std::uint32_t kPolled = 0;
  static constexpr std::uint32_t kArmed = 1;
  static constexpr std::uint32_t kRung = 2;  // since it was armed or disarmed
  std::atomic<std::uint32_t> word_{kPolled};
};

}  // namespace braid::proxy
