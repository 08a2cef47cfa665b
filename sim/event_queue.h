// The events of virtual time, and the clock that they move.
//
// Events of the same instant are ordered by rank, and with equal ranks by insertion.
// So a run depends only on what its driver does: the same pushes give the same
// trace. A driver that may push the same events in another order uses ranks.
//
// A calendar queue (R. Brown, CACM 31(10), 1988, with a bitmap instead of a search through
// empty buckets): a wheel of buckets, each about as wide as the recent time between two
// events. Due events of the current bucket are in a small 4-ary heap; events after the end of
// the wheel are in a list that is searched once a turn. Measured: bench/event_queue_bench.
//
// An event cannot be removed. An owner that no longer wants it stores the
// valid instant in its own state, and ignores an event at another one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace braid::sim {

// `Event` is a movable value; it is moved a few times on its way through the queue.
template <class Event>
class EventQueue {
 public:
  // The virtual clock begins at `start`.
  explicit EventQueue(Instant start = Instant()) : now_(start) { clear(); }

  // The instant of the latest event that was taken out.
  Instant now() const { return now_; }
  bool empty() const { return size() == 0; }
  std::size_t size() const { return due_.size() + in_wheel_ + far_.size(); }
  // The instant of the next event; never() if there is none.
  Instant next_time() const { return empty() ? Instant::never() : Instant::from_ns(next_at_); }
  // The number of events taken out so far.
  std::uint64_t popped() const { return popped_; }

  static constexpr unsigned kRankBits = 24;

  // Allocates only when more events wait than ever before. `at` must not be in the past, nor never().
  void push(Instant at, Event event, std::uint32_t rank = 0) {
    CHECK_GE(at, now_);
    CHECK(at != Instant::never());
    CHECK_EQ(rank >> kRankBits, 0u);
    Entry entry{at.ns(), std::uint64_t{rank} << (64 - kRankBits) | pushed_++, std::move(event)};
    if (empty() || entry.at < next_at_) next_at_ = entry.at;
    put(std::move(entry));
  }

  // Removes the next event and moves the clock to it. Not when empty().
  Event pop() {
    CHECK(!empty());
    if (due_.empty()) refill();
    Entry first = std::move(due_.front());
    Entry last = std::move(due_.back());
    due_.pop_back();
    if (!due_.empty()) sink(std::move(last));
    now_ = Instant::from_ns(first.at);
    if (++popped_ % kPopsBetweenCounts == 0) adapt();
    next_at_ = earliest();
    return std::move(first.event);
  }

  // Removes all events; the clock stays.
  void clear() {
    due_.clear();
    far_.clear();
    wheel_.clear();
    free_ = kNone;
    buckets_.fill(kNone);
    occupied_.fill(0);
    in_wheel_ = 0;
    due_before_ = has_few_ ? std::numeric_limits<std::int64_t>::max() : now_.ns();
    next_bucket_ = now_.ns() >> shift_;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  static constexpr std::int64_t kBuckets = 1024;
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr unsigned kFirstShift = 6;  // buckets of 64 ns, until the first count
  static constexpr std::uint64_t kPopsBetweenCounts = 4096;
  // With more events than this a bucket holds several, so that the
  // wheel covers about four times the mean time until an event.
  static constexpr std::size_t kOnePerBucket = kBuckets / 4;
  // With fewer events than this the heap alone is faster.
  static constexpr std::size_t kFew = 32;

  struct Entry {
    std::int64_t at;
    std::uint64_t order;  // rank, then insertion: the order among equal times
    Event event;
    // One comparison of both, without a branch that would be mispredicted half the time.
    bool before(const Entry& o) const { return key() < o.key(); }
    __int128 key() const { return (static_cast<__int128>(at) << 64) | order; }
  };
  struct Waiting {
    Entry entry;
    std::uint32_t next;  // in its bucket, or in the free list
  };

  void put(Entry entry) {
    if (entry.at < due_before_)
      add_due(std::move(entry));
    else
      put_aside(std::move(entry));
  }

  // The earliest time of all events, in ns. Moves nothing: the driver may still push an earlier event.
  std::int64_t earliest() const {
    if (!due_.empty()) return due_[0].at;
    std::int64_t at = far_.empty() ? 0 : first_far_;
    if (in_wheel_ == 0) return at;
    bool known = !far_.empty();
    for (std::uint32_t i = buckets_[slot(first_bucket())]; i != kNone; i = wheel_[i].next) {
      if (!known || wheel_[i].entry.at < at) at = wheel_[i].entry.at;
      known = true;
    }
    return at;
  }

  // ---- due events: all before `due_before_`

  void add_due(Entry entry) {
    due_.push_back(std::move(entry));
    rise(due_.size() - 1);
  }

  void rise(std::size_t i) {
    if (i == 0) return;
    Entry entry = std::move(due_[i]);
    while (i > 0) {
      const std::size_t parent = (i - 1) / kChildren;
      if (!entry.before(due_[parent])) break;
      due_[i] = std::move(due_[parent]);
      i = parent;
    }
    due_[i] = std::move(entry);
  }

  // Inserts the entry at the root, whose own entry was removed.
  void sink(Entry entry) {
    const std::size_t size = due_.size();
    std::size_t i = 0;
    for (;;) {
      const std::size_t first = i * kChildren + 1;
      if (first >= size) break;
      const std::size_t end = first + kChildren < size ? first + kChildren : size;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child)
        least = due_[child].before(due_[least]) ? child : least;
      if (!due_[least].before(entry)) break;
      due_[i] = std::move(due_[least]);
      i = least;
    }
    due_[i] = std::move(entry);
  }

  // ---- the wheel: buckets next_bucket_ to next_bucket_ + kBuckets - 1; and later events

  static std::size_t slot(std::int64_t bucket) { return static_cast<std::size_t>(bucket & (kBuckets - 1)); }

  void put_aside(Entry entry) {
    const std::int64_t bucket = entry.at >> shift_;
    if (bucket - next_bucket_ >= kBuckets) {
      first_far_ = far_.empty() || entry.at < first_far_ ? entry.at : first_far_;
      far_.push_back(std::move(entry));
      return;
    }
    std::uint32_t& head = buckets_[slot(bucket)];
    std::uint32_t index = free_;
    if (index == kNone) {
      index = static_cast<std::uint32_t>(wheel_.size());
      wheel_.push_back({std::move(entry), head});
    } else {
      free_ = wheel_[index].next;
      wheel_[index].entry = std::move(entry);
      wheel_[index].next = head;
    }
    head = index;
    occupied_[slot(bucket) / 64] |= std::uint64_t{1} << slot(bucket) % 64;
    ++in_wheel_;
  }

  // The first occupied bucket. The wheel must not be empty.
  std::int64_t first_bucket() const {
    const std::size_t from = slot(next_bucket_);
    std::size_t word = from / 64;
    std::uint64_t bits = occupied_[word] & ~std::uint64_t{0} << from % 64;
    while (bits == 0) {
      word = (word + 1) % occupied_.size();
      bits = occupied_[word];
    }
    const std::size_t found = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    return next_bucket_ + static_cast<std::int64_t>(slot(static_cast<std::int64_t>(found - from)));
  }

  // No event is due and some wait: makes the first occupied bucket due.
  void refill() {
    if (in_wheel_ == 0) next_bucket_ = first_far_ >> shift_;
    if (!far_.empty() && (in_wheel_ == 0 || first_far_ >> shift_ <= first_bucket())) bring_near();
    const std::int64_t bucket = first_bucket();
    std::uint32_t& head = buckets_[slot(bucket)];
    while (head != kNone) {
      Waiting& waiting = wheel_[head];
      add_due(std::move(waiting.entry));
      free_ = std::exchange(head, std::exchange(waiting.next, free_));
      --in_wheel_;
    }
    occupied_[slot(bucket) / 64] &= ~(std::uint64_t{1} << slot(bucket) % 64);
    next_bucket_ = bucket + 1;
    due_before_ = next_bucket_ << shift_;
  }

  // Moves later events that the wheel covers now into the wheel.
  void bring_near() {
    std::vector<Entry> far = std::exchange(far_, std::move(spare_));
    for (Entry& entry : far) put_aside(std::move(entry));
    far.clear();
    spare_ = std::move(far);
  }

  // Chooses how wide a bucket is: a power of two.
  void adapt() {
    const auto passed = static_cast<std::uint64_t>(now_.ns() - counted_at_);
    counted_at_ = now_.ns();
    const std::uint64_t crowd = size() > kOnePerBucket ? size() / kOnePerBucket : 1;
    const auto shift = static_cast<unsigned>(std::bit_width(passed / kPopsBetweenCounts * crowd));
    const bool has_few = size() < (has_few_ ? 2 * kFew : kFew);
    // Half or twice the width is as good.
    if (has_few == has_few_ && (has_few || (shift <= shift_ + 1 && shift_ <= shift + 1))) return;
    std::vector<Entry> all = std::exchange(far_, {});
    std::move(due_.begin(), due_.end(), std::back_inserter(all));
    for (std::uint32_t& head : buckets_) {
      for (std::uint32_t i = std::exchange(head, kNone); i != kNone; i = wheel_[i].next)
        all.push_back(std::move(wheel_[i].entry));
    }
    shift_ = shift;
    has_few_ = has_few;
    clear();
    for (Entry& entry : all) put(std::move(entry));
  }

  std::vector<Entry> due_;        // a heap
  std::int64_t due_before_ = 0;   // in ns
  std::int64_t next_bucket_ = 0;  // numbered from the beginning of time
  bool has_few_ = true;           // all events are due: there are so few that a heap is best
  unsigned shift_ = kFirstShift;  // a bucket is 2^shift_ ns wide
  std::array<std::uint32_t, kBuckets> buckets_;
  std::array<std::uint64_t, kBuckets / 64> occupied_;
  std::vector<Waiting> wheel_;
  std::uint32_t free_ = kNone;  // of wheel_
  std::size_t in_wheel_ = 0;
  std::vector<Entry> far_, spare_;
  std::int64_t first_far_ = 0;   // in ns, of far_; valid if far_ is not empty
  std::int64_t next_at_ = 0;     // in ns, the earliest of all; valid if there is any
  std::int64_t counted_at_ = 0;  // in ns
  Instant now_;
  std::uint64_t pushed_ = 0;
  std::uint64_t popped_ = 0;
};

}  // namespace braid::sim
