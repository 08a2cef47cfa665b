// A wire whose arrivals a test queues, for tests of what stands before a wire.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "proxy/nic/nic_queue.h"
#include "tests/nic/frames.h"

namespace braid::proxy::test {

using Frame = std::vector<std::byte>;

// A wire that delivers the frames that the test queued, from buffers that the next receive() reuses.
class ScriptedQueue final : public NicQueue {
 public:
  void arrive(Frame frame) { waiting_.push_back(std::move(frame)); }
  std::size_t waiting() const { return waiting_.size(); }

  std::size_t receive(std::span<MutableBytes> frames) override {
    std::size_t n = 0;
    for (; n < std::min(frames.size(), kMaxBurst) && !waiting_.empty(); ++n) {
      buffers_[n].assign(max_frame_bytes(), std::byte{0xee});
      std::copy(waiting_.front().begin(), waiting_.front().end(), buffers_[n].begin());
      frames[n] = MutableBytes(buffers_[n].data(), waiting_.front().size());
      waiting_.pop_front();
    }
    return n;
  }
  std::size_t reserve(std::span<TxFrame> frames) override {
    frames[0] = {.data = sent.data(), .capacity = static_cast<std::uint32_t>(sent.size())};
    return 1;
  }
  void commit(std::span<const TxFrame> frames) override { sent_bytes = frames[0].length; }
  bool link_up() const override { return false; }
  std::uint32_t max_frame_bytes() const override { return 9014; }
  std::uint64_t transmit_drops() const override { return 17; }
  WakeWord* wake_word() override { return &word; }

  WakeWord word;
  std::array<std::byte, 128> sent{};
  std::uint32_t sent_bytes = 0;

 private:
  std::deque<Frame> waiting_;
  std::array<Frame, kMaxBurst> buffers_;
};

inline Frame numbered(std::uint64_t number, std::uint32_t length = 200) {
  Frame frame(length);
  write_numbered(frame.data(), length, number);
  return frame;
}

}  // namespace braid::proxy::test
