// What happens next in virtual time, and the clock that this moves.
//
// Events that fall on the same instant come out by their rank, and with equal ranks in the order in which
// they were put in, so a run depends on nothing but what its driver does: the same pushes, the same trace.
// Ranks are for a driver that may push the same events in another order. A 4-ary heap: half the levels of a
// binary one and its four children share a cache line or two (measured: bench/event_queue_bench).
//
// An event cannot be taken back. Who may change his mind keeps the instant that still holds beside the object
// and ignores an event that is not for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace braid::sim {

// `Event` is a small value: it is moved about log4(size()) times on its way through.
template <class Event>
class EventQueue {
 public:
  // The virtual clock begins at `start`.
  explicit EventQueue(Instant start = Instant()) : now_(start) {}

  // The instant of the event that came out last.
  Instant now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  // When the next event happens; never() if there is none.
  Instant next_time() const { return heap_.empty() ? Instant::never() : Instant::from_ns(heap_[0].at); }
  // Events that came out so far.
  std::uint64_t popped() const { return popped_; }
  void reserve(std::size_t events) { heap_.reserve(events); }

  static constexpr unsigned kRankBits = 24;

  // Allocates only when more events wait than ever before. `at` is not in the past, nor never().
  void push(Instant at, Event event, std::uint32_t rank = 0) {
    CHECK_GE(at, now_);
    CHECK(at != Instant::never());
    CHECK_EQ(rank >> kRankBits, 0u);
    heap_.push_back(Entry{at.ns(), std::uint64_t{rank} << (64 - kRankBits) | pushed_++, std::move(event)});
    rise(heap_.size() - 1);
  }

  // Takes the next event out and moves the clock to it. Not when empty().
  Event pop() {
    CHECK(!heap_.empty());
    Entry first = std::move(heap_.front());
    Entry last = std::move(heap_.back());
    heap_.pop_back();
    if (!heap_.empty()) sink(std::move(last));
    now_ = Instant::from_ns(first.at);
    ++popped_;
    return std::move(first.event);
  }

  // Nothing that waits will happen; the clock stays.
  void clear() { heap_.clear(); }

 private:
  static constexpr std::size_t kChildren = 4;
  struct Entry {
    std::int64_t at;
    std::uint64_t order;  // rank, then insertion: decides between equals
    Event event;
    // Both in one comparison, which needs no branch that would be guessed wrong half the time.
    bool before(const Entry& o) const { return key() < o.key(); }
    __int128 key() const { return (static_cast<__int128>(at) << 64) | order; }
  };

  void rise(std::size_t i) {
    Entry entry = std::move(heap_[i]);
    while (i > 0) {
      const std::size_t parent = (i - 1) / kChildren;
      if (!entry.before(heap_[parent])) break;
      heap_[i] = std::move(heap_[parent]);
      i = parent;
    }
    heap_[i] = std::move(entry);
  }

  // From the root, whose entry has gone.
  void sink(Entry entry) {
    const std::size_t size = heap_.size();
    std::size_t i = 0;
    for (;;) {
      const std::size_t first = i * kChildren + 1;
      if (first >= size) break;
      const std::size_t end = first + kChildren < size ? first + kChildren : size;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child)
        least = heap_[child].before(heap_[least]) ? child : least;
      if (!heap_[least].before(entry)) break;
      heap_[i] = std::move(heap_[least]);
      i = least;
    }
    heap_[i] = std::move(entry);
  }

  std::vector<Entry> heap_;
  Instant now_;
  std::uint64_t pushed_ = 0;
  std::uint64_t popped_ = 0;
};

}  // namespace braid::sim
