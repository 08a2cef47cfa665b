// A single-producer single-consumer ring in memory that two processes share and only one of them can be
// trusted.
//
// Each side keeps its own index in private memory and publishes a copy of it; it reads the other's published
// index once, checks that the index is possible, and only then believes it. A peer that writes nonsense into
// the shared part is found out (Peer::kViolates) and can hurt nobody but itself. Entries are read by copy: the
// consumer checks its own copy, never the shared bytes.
//
//      consumed by them      readable          free
//   -------|--------------------|-----------------------|---
//        head                 tail              head + capacity
//
// Inside one trust domain, between threads of one process, boost::lockfree::spsc_queue serves instead: it
// trusts both indices.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace braid {

inline constexpr std::size_t kCacheLine = 64;

// The part that both processes see. `Entry` is plain bytes; capacity is a power of two fixed at set-up and is
// NOT read from here. Lives in zeroed shared memory, followed by capacity entries.
struct RingControl {
  alignas(kCacheLine) std::atomic<std::uint32_t> tail;  // written by the producer
  alignas(kCacheLine) std::atomic<std::uint32_t> head;  // written by the consumer
};
static_assert(sizeof(RingControl) == 2 * kCacheLine);

enum class Peer { kHonest, kViolates };

template <class Entry>
constexpr std::size_t ring_bytes(std::uint32_t capacity) {
  return sizeof(RingControl) + sizeof(Entry) * capacity;
}

// Owned by the producing thread.
template <class Entry>
class RingProducer {
  static_assert(std::is_trivially_copyable_v<Entry>);

 public:
  RingProducer() = default;
  // `memory` holds ring_bytes<Entry>(capacity) zeroed bytes, aligned to a cache line, and outlives this
  // object. `resumes`: another producer, which will not write any more, stopped there; else it is zeroed.
  RingProducer(std::byte* memory, std::uint32_t capacity, bool resumes = false)
      : control_(reinterpret_cast<RingControl*>(memory)),
        entries_(reinterpret_cast<Entry*>(memory + sizeof(RingControl))),
        capacity_(capacity) {
    CHECK(std::has_single_bit(capacity));
    if (resumes) {
      tail_ = tail_published_ = control_->tail.load(std::memory_order_acquire);
      // Not what the consumer says: as if it had taken all but a full ring, and then its word is checked.
      head_seen_ = tail_ - capacity_;
    }
  }

  // Entries that may be written before publish(). Reads the consumer's index only when the cached value says
  // full.
  std::uint32_t room() {
    if (tail_ - head_seen_ == capacity_) refresh();
    return capacity_ - (tail_ - head_seen_);
  }
  // Reads the consumer's index; what lies before consumed() may be reused.
  Peer refresh() {
    const std::uint32_t head = control_->head.load(std::memory_order_acquire);
    if (head - head_seen_ > tail_published_ - head_seen_) return peer_ = Peer::kViolates;
    head_seen_ = head;
    return peer_;
  }
  // room() > 0. Visible to the consumer after publish().
  void push(const Entry& entry) {
    CHECK_LT(tail_ - head_seen_, capacity_);
    std::memcpy(&entries_[tail_ & (capacity_ - 1)], &entry, sizeof entry);
    ++tail_;
  }
  void publish() {
    if (tail_ != tail_published_) {
      control_->tail.store(tail_, std::memory_order_release);
      tail_published_ = tail_;
    }
  }
  bool unpublished() const { return tail_ != tail_published_; }
  std::uint32_t unpublished_entries() const { return tail_ - tail_published_; }
  std::uint32_t produced() const { return tail_; }
  std::uint32_t consumed() const { return head_seen_; }
  std::uint32_t capacity() const { return capacity_; }
  Peer peer() const { return peer_; }

 private:
  RingControl* control_ = nullptr;
  Entry* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t tail_published_ = 0;
  std::uint32_t head_seen_ = 0;
  Peer peer_ = Peer::kHonest;
};

// Owned by the consuming thread.
template <class Entry>
class RingConsumer {
  static_assert(std::is_trivially_copyable_v<Entry>);

 public:
  RingConsumer() = default;
  // `resumes`: another consumer, which will not take any more, stopped there.
  RingConsumer(std::byte* memory, std::uint32_t capacity, bool resumes = false)
      : control_(reinterpret_cast<RingControl*>(memory)),
        entries_(reinterpret_cast<const Entry*>(memory + sizeof(RingControl))),
        capacity_(capacity) {
    CHECK(std::has_single_bit(capacity));
    if (resumes) head_ = released_ = tail_seen_ = control_->head.load(std::memory_order_acquire);
  }

  // Entries that can be read. Reads the producer's index only when none is left of the last look.
  std::uint32_t readable() {
    if (tail_seen_ == head_) refresh();
    return tail_seen_ - head_;
  }
  // Looks at the producer's index now. Measured from released(), because the slots from there on are ours
  // still: a producer that runs a lap past it has written over them.
  Peer refresh() {
    const std::uint32_t tail = control_->tail.load(std::memory_order_acquire);
    if (tail - released_ > capacity_ || tail - released_ < tail_seen_ - released_)
      return peer_ = Peer::kViolates;
    tail_seen_ = tail;
    return peer_;
  }
  // A copy of the next entry; readable() > 0. Its slot stays the consumer's until release().
  Entry take() {
    CHECK_NE(head_, tail_seen_);
    Entry entry;
    std::memcpy(&entry, &entries_[head_ & (capacity_ - 1)], sizeof entry);
    // The compiler may not read the shared bytes again in place of the copy that the caller has checked.
    asm volatile("" : : : "memory");
    ++head_;
    return entry;
  }
  // Gives all entries before `upto` back to the producer; released() <= upto <= taken().
  void release(std::uint32_t upto) {
    CHECK_LE(upto - released_, head_ - released_);
    if (upto != released_) {
      control_->head.store(upto, std::memory_order_release);
      released_ = upto;
    }
  }
  std::uint32_t taken() const { return head_; }
  std::uint32_t released() const { return released_; }
  std::uint32_t capacity() const { return capacity_; }
  Peer peer() const { return peer_; }

 private:
  RingControl* control_ = nullptr;
  const Entry* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t released_ = 0;
  std::uint32_t tail_seen_ = 0;
  Peer peer_ = Peer::kHonest;
};

}  // namespace braid
