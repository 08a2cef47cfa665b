// Hands over frames from the proxy whose queue received them to the proxy whose port they name. One ring for
// each pair of proxies that need it; the frame is copied, because the NIC reuses its buffer.
#pragma once

#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/local_ring.h"

namespace braid::proxy {

class Handoff {
 public:
  static constexpr std::size_t kFrames = 64;

  explicit Handoff(std::uint32_t frame_bytes)
      : frame_bytes_(frame_bytes),
        storage_(std::make_unique_for_overwrite<std::byte[]>(frame_bytes * (kFrames + 1))) {}

  // The sending proxy's thread. False if the ring is full or the frame too long.
  bool push(LinkId link, ByteView frame) {
    if (frame.size() > frame_bytes_ || ring_.write_available() == 0) return false;
    std::memcpy(slot(tail_), frame.data(), frame.size());
    ring_.push(Entry{link, static_cast<std::uint32_t>(frame.size())});
    tail_ = tail_ == kFrames ? 0 : tail_ + 1;
    return true;
  }
  // The receiving proxy's thread: hands each frame to f(link, frame) in place. Returns how many.
  template <class F>
  int drain(F&& f) {
    int frames = 0;
    while (ring_.read_available() > 0) {
      const Entry entry = ring_.front();
      f(entry.link, ByteView{slot(head_), entry.bytes});
      head_ = head_ == kFrames ? 0 : head_ + 1;
      ring_.pop();  // only now may the slot be written again
      ++frames;
    }
    return frames;
  }

 private:
  struct Entry {
    LinkId link;
    std::uint32_t bytes = 0;
  };
  std::byte* slot(std::size_t i) { return storage_.get() + i * frame_bytes_; }

  std::uint32_t frame_bytes_;
  std::unique_ptr<std::byte[]> storage_;
  LocalRing<Entry, kFrames> ring_;
  alignas(64) std::size_t tail_ = 0;  // the sender's
  alignas(64) std::size_t head_ = 0;  // the receiver's
};

}  // namespace braid::proxy
