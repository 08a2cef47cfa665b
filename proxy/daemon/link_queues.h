// A proxy's own queues of the NICs: frames arrive by any of them; those for a link leave by its first.
//
// Owned by the proxy's worker. Nothing here looks into a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/ids.h"
#include "proxy/nic/nic_queue.h"

namespace braid::proxy {

struct LinkQueue {
  LinkId link;
  std::unique_ptr<NicQueue> nic;
};

class LinkQueues {
 public:
  // Bursts of one link that a call of transmit() sends: a busy link does not keep the others waiting.
  static constexpr int kBurstsPerTurn = 4;
  // Buffers of the first burst: most turns send a frame or two, and to reserve more of them takes longer.
  static constexpr std::size_t kFirstBurst = 2;
  // A burst ends with the frame that reaches it: the other end begins on long frames while more are written and sealed.
  static constexpr std::size_t kBurstBytes = 65'000;

  // Each queue is of one of `links` links and has room for frames of `frame_bytes`.
  LinkQueues(std::vector<LinkQueue> queues, std::size_t links, std::uint32_t frame_bytes)
      : queues_(std::move(queues)), transmit_(links, nullptr) {
    for (const LinkQueue& q : queues_) {
      CHECK_LT(q.link.value(), links);
      CHECK_GE(q.nic->max_frame_bytes(), frame_bytes);
      NicQueue*& transmit = transmit_[q.link.value()];
      if (transmit == nullptr) transmit = q.nic.get();
    }
  }

  // Hands frames that have arrived to f(link, frame), at most a burst of each queue, and adds to `frames` how many.
  template <class F>
  void receive(int& frames, F&& f) {
    for (const LinkQueue& q : queues_) {
      const std::size_t n = q.nic->receive(arriving_);
      for (std::size_t i = 0; i < n; ++i) f(q.link, ByteView(arriving_[i]));
      frames += static_cast<int>(n);
    }
  }

  // Has write(link, room) write the next frame of each link, which returns its length, until that is 0, the
  // queue is full, or kBurstsPerTurn bursts have left. Returns how many frames left.
  template <class F>
  int transmit(F&& write) {
    int frames = 0;
    for (std::uint16_t link = 0; link < transmit_.size(); ++link) {
      NicQueue* const nic = transmit_[link];
      if (nic == nullptr) continue;
      std::size_t wanted = kFirstBurst;
      for (int burst = 0; burst < kBurstsPerTurn; ++burst) {
        const std::size_t offered = nic->reserve(std::span(leaving_).first(wanted));
        std::size_t used = 0, bytes = 0;
        while (used < offered && bytes < kBurstBytes) {
          const std::size_t length =
              write(LinkId(link), MutableBytes{leaving_[used].data, leaving_[used].capacity});
          if (length == 0) break;
          leaving_[used].length = static_cast<std::uint32_t>(length);
          bytes += length;
          ++used;
        }
        if (used > 0) nic->commit(std::span(leaving_).first(used));
        frames += static_cast<int>(used);
        if (used < offered) prefetch_to_write(leaving_[used]);
        if (used < wanted && bytes < kBurstBytes) break;
        wanted = kMaxBurst;
      }
    }
    return frames;
  }

  // Queues that can wake their owner from a sleep put their words into `words`; returns how many cannot.
  unsigned collect_wake_words(std::vector<WakeWord*>& words) const {
    unsigned polled = 0;
    for (const LinkQueue& q : queues_) {
      if (WakeWord* const word = q.nic->wake_word())
        words.push_back(word);
      else
        ++polled;
    }
    return polled;
  }
  void announce_sleep() {
    for (const LinkQueue& q : queues_) q.nic->announce_sleep();
  }
  void withdraw_sleep() {
    for (const LinkQueue& q : queues_) q.nic->withdraw_sleep();
  }

  // Frames that left and that a link refused.
  std::uint64_t transmit_drops() const { return sum(&NicQueue::transmit_drops); }
  // Frames that came and found no room.
  std::uint64_t receive_drops() const {
    std::uint64_t all = 0;
    for (const LinkQueue& q : queues_) all += q.nic->receive_drops();
    return all;
  }
  // Messages of ICMP that the kernel got for frames that left.
  std::uint64_t icmp_errors() const { return sum(&NicQueue::icmp_errors); }
  std::uint64_t address_changes() const { return sum(&NicQueue::address_changes); }

 private:
  std::uint64_t sum(std::uint64_t (NicQueue::*count)() const) const {
    std::uint64_t all = 0;
    for (const NicQueue* nic : transmit_) all += nic != nullptr ? (nic->*count)() : 0;
    return all;
  }

  // The other side of a wire in shared memory had the buffer last. A packet with one small message has so many lines.
  static void prefetch_to_write(const TxFrame& frame) {
    for (std::size_t line = 0; line < 3; ++line) asm volatile("prefetchw %0" : : "m"(frame.data[64 * line]));
  }

  std::vector<LinkQueue> queues_;
  std::vector<NicQueue*> transmit_;  // by link; nullptr: nothing can leave there
  // One burst each. Members, or each call would clear them first.
  std::array<MutableBytes, kMaxBurst> arriving_;
  std::array<TxFrame, kMaxBurst> leaving_;
};

}  // namespace braid::proxy
