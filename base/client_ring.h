// A single-producer single-consumer ring in memory that two
// processes share, for a process that does not trust the other one.
//
// Each side keeps its own index in private memory and publishes a copy of it. It reads the other
// side's published index once, checks that the value is possible, and uses it only then. A peer
// that writes invalid values into the shared part is detected (Peer::kViolates) and harms only
// itself. Entries are copied out: the consumer checks its copy, never the shared bytes.
//
//      consumed              readable          free
//   -------|--------------------|-----------------------|---
//        head                 tail              head + capacity
//
// Between threads of one process, which trust each other,
// use boost::lockfree::spsc_queue: it trusts both indices.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/wake_word.h"

namespace braid {

inline constexpr std::size_t kCacheLine = 64;

// The part that both processes see. `Entry` is plain bytes. The capacity is a power of two, fixed at
// set-up, and is NOT read from here. It lies in zeroed shared memory, followed by `capacity` entries.
struct RingControl {
  alignas(kCacheLine) std::atomic<std::uint32_t> tail;  // written by the producer
  // How the consumer sleeps until an entry is published. It lies beside what the producer writes then, so the
  // producer's look at it costs no cache line.
  WakeWord wake;
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
  // `memory`: ring_bytes<Entry>(capacity) bytes, aligned to a cache line; it outlives this object.
  // `resumes`: continue where an earlier producer, which writes no more, stopped; otherwise it is zeroed.
  RingProducer(std::byte* memory, std::uint32_t capacity, bool resumes = false)
      : control_(reinterpret_cast<RingControl*>(memory)),
        entries_(reinterpret_cast<Entry*>(memory + sizeof(RingControl))),
        capacity_(capacity) {
    CHECK(std::has_single_bit(capacity));
    if (resumes) {
      tail_ = tail_published_ = control_->tail.load(std::memory_order_acquire);
      // The consumer's index is not trusted here: assume a full ring; refresh() checks the published index.
      head_seen_ = tail_ - capacity_;
    }
  }

  // Number of entries that may be written before publish(). Reads the
  // consumer's index only if the cached value says that the ring is full.
  std::uint32_t room() {
    if (tail_ - head_seen_ == capacity_) refresh();
    return capacity_ - (tail_ - head_seen_);
  }
  // Reads the consumer's index. The entries before consumed() may be reused.
  Peer refresh() {
    const std::uint32_t head = control_->head.load(std::memory_order_acquire);
    if (head - head_seen_ > tail_published_ - head_seen_) return peer_ = Peer::kViolates;
    head_seen_ = head;
    return peer_;
  }
  // Requires room() > 0. The consumer sees the entry after publish().
  void push(const Entry& entry) {
    CHECK_LT(tail_ - head_seen_, capacity_);
    std::memcpy(&entries_[tail_ & (capacity_ - 1)], &entry, sizeof entry);
    ++tail_;
  }
  // The entry that was pushed as the `index`th; it may be changed until publish(). unpublished(index).
  Entry& unpublished_entry(std::uint32_t index) {
    CHECK(unpublished(index));
    return entries_[index & (capacity_ - 1)];
  }
  void publish() {
    if (tail_ != tail_published_) {
      control_->tail.store(tail_, std::memory_order_release);
      tail_published_ = tail_;
    }
  }
  // The same, and wakes the consumer if that sleeps on its wake_word().
  void publish_and_wake() {
    if (tail_ != tail_published_) braid::publish_and_wake(Publication{*this});
  }
  bool unpublished() const { return tail_ != tail_published_; }
  // The entry that was pushed as the `index`th is not published.
  bool unpublished(std::uint32_t index) const { return index - tail_published_ < tail_ - tail_published_; }
  std::uint32_t unpublished_entries() const { return tail_ - tail_published_; }
  std::uint32_t produced() const { return tail_; }
  std::uint32_t consumed() const { return head_seen_; }
  std::uint32_t capacity() const { return capacity_; }
  Peer peer() const { return peer_; }

 private:
  struct Publication {
    RingProducer& ring;
    void publish() { ring.publish(); }
    void order() { WakeBarrier::order(); }
    bool asleep() { return ring.control_->wake.asleep(); }
    void mark_rung() { ring.control_->wake.mark_rung(); }
    void wake() { ring.control_->wake.wake(); }
  };

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
  // `resumes`: continue where an earlier consumer, which takes no more, stopped.
  RingConsumer(std::byte* memory, std::uint32_t capacity, bool resumes = false)
      : control_(reinterpret_cast<RingControl*>(memory)),
        entries_(reinterpret_cast<const Entry*>(memory + sizeof(RingControl))),
        capacity_(capacity) {
    CHECK(std::has_single_bit(capacity));
    if (resumes) head_ = released_ = tail_seen_ = control_->head.load(std::memory_order_acquire);
  }

  // Number of readable entries. Reads the producer's index only if no entry of the last reading is left.
  std::uint32_t readable() {
    if (tail_seen_ == head_) refresh();
    return tail_seen_ - head_;
  }
  // Reads the producer's index. It is compared with released(), because the slots from there on
  // still belong to the consumer: a producer that is more than a lap ahead has overwritten them.
  Peer refresh() {
    const std::uint32_t tail = control_->tail.load(std::memory_order_acquire);
    if (tail - released_ > capacity_ || tail - released_ < tail_seen_ - released_)
      return peer_ = Peer::kViolates;
    tail_seen_ = tail;
    return peer_;
  }
  // Returns a copy of the next entry; requires readable() > 0. Its slot is the consumer's until release().
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
  // Rung by publish_and_wake(). The producer can write anything there.
  WakeWord& wake_word() { return control_->wake; }
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
