// A wire between two nodes of one process: a short queue of frames each way, and no descriptors, because a
// fuzzer restores its nodes for every input. A full queue drops frames.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "base/check.h"
#include "proxy/nic/nic_queue.h"
#include "tests/fuzz/input.h"

namespace braid::fuzz {

struct MemoryWire {
  static constexpr std::size_t kFrameBytes = 1514;
  static constexpr std::size_t kMaxFrames = 256;
  std::deque<std::vector<std::byte>> frames[2];  // by side: to it
};

class MemoryQueue final : public proxy::NicQueue {
 public:
  MemoryQueue(std::shared_ptr<MemoryWire> wire, int side) : wire_(std::move(wire)), side_(side) {}

  std::size_t receive(std::span<MutableBytes> frames) override {
    auto& waiting = wire_->frames[side_];
    std::size_t n = 0;
    for (; n < std::min(frames.size(), proxy::kMaxBurst) && !waiting.empty(); ++n) {
      received_[n] = std::move(waiting.front());
      waiting.pop_front();
      frames[n] = received_[n];
    }
    return n;
  }
  std::size_t reserve(std::span<proxy::TxFrame> frames) override {
    const std::size_t n = std::min(frames.size(), proxy::kMaxBurst);
    for (std::size_t i = 0; i < n; ++i) {
      reserved_[i].resize(MemoryWire::kFrameBytes);
      frames[i] = {.data = reserved_[i].data(), .capacity = MemoryWire::kFrameBytes, .length = 0};
    }
    return n;
  }
  void commit(std::span<const proxy::TxFrame> frames) override {
    auto& theirs = wire_->frames[1 - side_];
    for (const proxy::TxFrame& f : frames) {
      CHECK(f.length > 0 && f.length <= f.capacity);
      digest(ByteView(f.data, f.length));
      if (theirs.size() < MemoryWire::kMaxFrames) theirs.emplace_back(f.data, f.data + f.length);
    }
  }
  std::uint32_t max_frame_bytes() const override { return MemoryWire::kFrameBytes; }

 private:
  const std::shared_ptr<MemoryWire> wire_;
  const int side_;
  std::array<std::vector<std::byte>, proxy::kMaxBurst> received_;
  std::array<std::vector<std::byte>, proxy::kMaxBurst> reserved_;
};

}  // namespace braid::fuzz
