#include "proxy/nic/delaying_queue.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace braid::proxy {

DelayingQueue::DelayingQueue(std::unique_ptr<NicQueue> wire, Duration delay, std::uint32_t frames,
                             Clock clock)
    : NicQueueDecorator(std::move(wire)),
      delay_(delay),
      clock_(clock),
      storage_(std::size_t{frames} * wire_->max_frame_bytes()),
      held_(frames) {
  CHECK_GT(frames, 0u);
}

std::size_t DelayingQueue::receive(std::span<MutableBytes> frames) {
  lent_ = first_;
  const Instant now = clock_();
  take_arrivals(now);
  std::size_t filled = 0;
  for (; filled < std::min(frames.size(), kMaxBurst) && first_ != end_; ++filled, ++first_) {
    const Held& held = held_[first_ % held_.size()];
    if (now < held.due) break;
    frames[filled] = MutableBytes(buffer(first_), held.length);
  }
  return filled;
}

// All of them: what stayed with the wire would be held back for longer.
void DelayingQueue::take_arrivals(Instant now) {
  std::array<MutableBytes, kMaxBurst> arrivals;
  std::size_t arrived;
  do {
    arrived = wire_->receive(arrivals);
    for (const MutableBytes frame : std::span(arrivals).first(arrived)) {
      if (end_ - lent_ == held_.size()) {
        overflows_.add();
        continue;
      }
      CHECK_LE(frame.size(), max_frame_bytes());
      std::memcpy(buffer(end_), frame.data(), frame.size());
      held_[end_ % held_.size()] = {.due = now + delay_, .length = static_cast<std::uint32_t>(frame.size())};
      ++end_;
    }
  } while (arrived == kMaxBurst);
}

}  // namespace braid::proxy
