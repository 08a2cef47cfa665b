// A NicQueue that holds every arriving frame back for a time, as a long path does: for tests, and for runs on a bad network.
//
// As in faulty_queue.h one at each end of a wire delays both directions. Frames wait in a bounded number of buffers, in their
// order; one that arrives when all are full is lost, as in a router whose queue is full. Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/time.h"
#include "proxy/nic/nic_queue_decorator.h"

namespace braid::proxy {

class DelayingQueue final : public NicQueueDecorator {
 public:
  using Clock = Instant (*)();

  // `frames` at once can wait: at least one.
  DelayingQueue(std::unique_ptr<NicQueue> wire, Duration delay, std::uint32_t frames,
                Clock clock = monotonic_now);

  std::size_t receive(std::span<MutableBytes> frames) override;
  // Frames that are held back come by polling.
  WakeWord* wake_word() override { return nullptr; }

  // Frames that were lost because all buffers were full. Any thread.
  std::uint64_t overflows() const { return overflows_.get(); }

 private:
  struct Held {
    Instant due;
    std::uint32_t length = 0;
  };
  void take_arrivals(Instant now);
  std::byte* buffer(std::uint64_t place) {
    return storage_.data() + place % held_.size() * max_frame_bytes();
  }

  const Duration delay_;
  const Clock clock_;
  std::vector<std::byte> storage_;
  // A ring; places count on. From `lent_` to `first_` are those that the last receive() gave out, behind them those that wait.
  std::vector<Held> held_;
  std::uint64_t lent_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  Counter overflows_;
};

}  // namespace braid::proxy
