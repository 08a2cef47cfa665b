// The frames in flight in a simulated network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace braid::sim {

// Numbered buffers for frames, of two sizes: where many clusters connect, a short frame for each pair is in flight at once.
// They are reused, so memory is bounded by the most frames of each size ever in flight.
class FramePool {
 public:
  // Most acknowledgements, hellos, requests and grants are no longer.
  static constexpr std::uint32_t kShortBytes = 256;

  explicit FramePool(std::uint32_t frame_bytes) : frame_bytes_(frame_bytes) {}
  std::uint32_t take() { return take(full_, frame_bytes_); }
  // A buffer of kShortBytes.
  std::uint32_t take_short() { return take(short_, kShortBytes); }
  void give(std::uint32_t buffer) { (slabs_[buffer / kSlab].is_short ? short_ : full_).push_back(buffer); }

  std::byte* data(std::uint32_t buffer) const {
    const Slab& slab = slabs_[buffer / kSlab];
    return slab.memory.get() + std::size_t{slab.buffer_bytes} * (buffer % kSlab);
  }
  std::uint32_t frame_bytes() const { return frame_bytes_; }
  std::uint32_t in_use() const {
    return static_cast<std::uint32_t>(slabs_.size() * kSlab - full_.size() - short_.size());
  }

 private:
  static constexpr std::uint32_t kSlab = 64;
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    std::uint32_t buffer_bytes;
    bool is_short;
  };
  using Free = std::vector<std::uint32_t>;

  std::uint32_t take(Free& free, std::uint32_t bytes) {
    if (free.empty()) {
      const auto first = static_cast<std::uint32_t>(slabs_.size() * kSlab);
      slabs_.push_back(
          {std::make_unique_for_overwrite<std::byte[]>(std::size_t{bytes} * kSlab), bytes, &free == &short_});
      for (std::uint32_t i = kSlab; i-- > 0;) free.push_back(first + i);
    }
    const std::uint32_t buffer = free.back();
    free.pop_back();
    return buffer;
  }

  const std::uint32_t frame_bytes_;
  std::vector<Slab> slabs_;
  Free full_, short_;
};

struct FrameRef {
  std::uint32_t buffer = 0;
  std::uint32_t length = 0;
};

}  // namespace braid::sim
