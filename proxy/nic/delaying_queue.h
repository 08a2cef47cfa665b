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
#include "proxy/nic/nic_queue.h"

namespace braid::proxy {

class DelayingQueue final : public NicQueue {
 public:
  using Clock = Instant (*)();

  // `frames` at once can wait: at least one.
  DelayingQueue(std::unique_ptr<NicQueue> wire, Duration delay, std::uint32_t frames,
                Clock clock = monotonic_now);

  std::size_t receive(std::span<MutableBytes> frames) override;
  std::size_t reserve(std::span<TxFrame> frames) override { return wire_->reserve(frames); }
  void commit(std::span<const TxFrame> frames) override { wire_->commit(frames); }
  bool link_up() const override { return wire_->link_up(); }
  std::uint32_t max_frame_bytes() const override { return wire_->max_frame_bytes(); }
  // No wake_word(): frames that are held back come by polling.
  std::uint64_t transmit_drops() const override { return wire_->transmit_drops(); }
  std::uint64_t icmp_errors() const override { return wire_->icmp_errors(); }

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

  const std::unique_ptr<NicQueue> wire_;
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
