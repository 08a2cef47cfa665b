// The frames in flight in a simulated network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace braid::sim {

// Numbered buffers for frames. They are reused, so memory is bounded by the most frames ever in flight.
class FramePool {
 public:
  explicit FramePool(std::uint32_t frame_bytes) : frame_bytes_(frame_bytes) {}
  std::uint32_t take() {
    if (free_.empty()) {
      slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(std::size_t{frame_bytes_} * kSlab));
      for (std::uint32_t i = kSlab; i-- > 0;) free_.push_back(made_ + i);
      made_ += kSlab;
    }
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give(std::uint32_t buffer) { free_.push_back(buffer); }
  std::byte* data(std::uint32_t buffer) const {
    return slabs_[buffer / kSlab].get() + std::size_t{frame_bytes_} * (buffer % kSlab);
  }
  std::uint32_t frame_bytes() const { return frame_bytes_; }
  std::uint32_t in_use() const { return made_ - static_cast<std::uint32_t>(free_.size()); }

 private:
  static constexpr std::uint32_t kSlab = 64;
  std::uint32_t frame_bytes_;
  std::uint32_t made_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::vector<std::uint32_t> free_;
};

struct FrameRef {
  std::uint32_t buffer = 0;
  std::uint32_t length = 0;
};

}  // namespace braid::sim
