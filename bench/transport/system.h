// The systems that transport_bench compares, and how its two processes take turns.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "bench/latencies.h"

namespace braid::bench {

inline constexpr std::uint32_t kSmallBytes = 64;
inline constexpr std::uint32_t kLargeBytes = 8192;

enum class Test : std::uint32_t { kNone, kTrip, kSmall, kLarge };
inline constexpr Test kTests[] = {Test::kTrip, Test::kSmall, Test::kLarge};

// In memory that both processes map.
struct Shared {
  // System << 8 | test, and a number that tells one turn from the next above it.
  alignas(64) std::atomic<std::uint64_t> step{0};
  alignas(64) std::atomic<std::uint64_t> far_step{0};  // what the far side has got ready for
  alignas(64) std::atomic<std::uint64_t> received{0};  // messages, or bytes over the bare wire
  alignas(64) std::atomic<bool> far_ready{false};
  // Of the kernel's sockets, by system and side (near, far), as they lie in an address.
  std::atomic<std::uint16_t> kernel_port[3][2];
};
inline constexpr std::uint64_t kStop = ~std::uint64_t{0};

// How a far side learns that its turn is over.
class Turn {
 public:
  Turn(Shared& shared, std::uint64_t step) : shared_(shared), step_(step) {}
  bool over() const { return shared_.step.load(std::memory_order_relaxed) != step_; }
  void received(std::uint64_t n) {
    total_ += n;
    shared_.received.store(total_, std::memory_order_release);
  }

 private:
  Shared& shared_;
  const std::uint64_t step_;
  std::uint64_t total_ = 0;
};

// One of the things that are compared. The same object is made in both processes.
class System {
 public:
  virtual ~System() = default;
  // The mean of so many round trips; `each`: see round_trip_us().
  virtual double trip_us(int trips, Latencies* each) = 0;
  // Sends messages until `end`.
  virtual void send(std::uint32_t bytes, Instant end) = 0;
  virtual void far(Test test, Turn turn) = 0;
  // After sending: takes what is still to come, for so long.
  virtual void drain(Duration) {}
  // Of what the far side counts.
  virtual double unit_bytes(std::uint32_t message_bytes) const { return message_bytes; }
};

}  // namespace braid::bench
