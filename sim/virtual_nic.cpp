#include "sim/virtual_nic.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace braid::sim {

VirtualNic::VirtualNic(Wire& wire, FramePool& pool, const VirtualNicOptions& options)
    : wire_(wire),
      pool_(pool),
      options_(options),
      ring_(options.rx_frames == 0 ? 0 : std::bit_ceil(options.rx_frames)) {
  CHECK_GT(options.tx_frames, 0u);
  CHECK_LE(options.tx_frames, proxy::kMaxBurst);
}

VirtualNic::~VirtualNic() {
  wire_.on_detach(*this);
  for (std::size_t i = 0; i < lent_count_; ++i) pool_.give(lent_[i]);
  for (std::size_t i = 0; i < reserved_count_; ++i) pool_.give(reserved_[i]);
  for (; head_ != tail_; ++head_) pool_.give(ring_[head_ & (ring_.size() - 1)].buffer);
}

bool VirtualNic::arrive(FrameRef frame) {
  if (tail_ - head_ == ring_.size()) return false;
  ring_[tail_++ & (ring_.size() - 1)] = frame;
  return true;
}

std::size_t VirtualNic::receive(std::span<MutableBytes> frames) {
  for (std::size_t i = 0; i < lent_count_; ++i) pool_.give(lent_[i]);
  lent_count_ = 0;
  const std::size_t most = std::min(frames.size(), proxy::kMaxBurst);
  for (; lent_count_ < most && head_ != tail_; ++head_) {
    const FrameRef& frame = ring_[head_ & (ring_.size() - 1)];
    lent_[lent_count_] = frame.buffer;
    frames[lent_count_++] = {pool_.data(frame.buffer), frame.length};
  }
  const std::size_t received = lent_count_;
  if (received > 0) wire_.on_receive(*this, frames.first(received));
  return received;
}

std::size_t VirtualNic::reserve(std::span<proxy::TxFrame> frames) {
  const std::size_t n = std::min<std::size_t>(frames.size(), options_.tx_frames);
  while (reserved_count_ < n) reserved_[reserved_count_++] = pool_.take();
  for (std::size_t i = 0; i < n; ++i) frames[i] = {pool_.data(reserved_[i]), pool_.frame_bytes(), 0};
  return n;
}

// A short frame goes in a short buffer, and its own stays here.
void VirtualNic::commit(std::span<const proxy::TxFrame> frames) {
  CHECK_LE(frames.size(), reserved_count_);
  std::array<FrameRef, proxy::kMaxBurst> sent;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::uint32_t buffer = reserved_[i];
    CHECK(frames[i].data == pool_.data(buffer));
    CHECK_GT(frames[i].length, 0u);
    CHECK_LE(frames[i].length, pool_.frame_bytes());
    sent[i] = {buffer, frames[i].length};
    if (frames[i].length > FramePool::kShortBytes) continue;
    sent[i].buffer = pool_.take_short();
    std::memcpy(pool_.data(sent[i].buffer), frames[i].data, frames[i].length);
    reserved_[kept++] = buffer;
  }
  const auto rest = reserved_.begin() + static_cast<std::ptrdiff_t>(frames.size());
  std::copy(rest, reserved_.begin() + static_cast<std::ptrdiff_t>(reserved_count_),
            reserved_.begin() + static_cast<std::ptrdiff_t>(kept));
  reserved_count_ -= frames.size() - kept;
  wire_.transmit(*this, std::span(sent).first(frames.size()));
}

}  // namespace braid::sim
