// Which of a stack's sub-connections need a look, and when the next timer runs out.
//
// A stack with many sub-connections has most of them idle. What its driver asks in every turn (does any have
// something to send? is a timer due? is a message finished?) stands here in a few contiguous words, so that
// an idle sub-connection costs no look at its own memory.
//
//   due        │ instant │ instant │ instant │ ...   one for each sub-connection
//   ready      │ 0 1 0 0 1 ...                       a bit for each: poll() may have something to write
//   finished   │ 0 1 0 0 0 ...                       take_finished() has something
//   changed    │ 0 0 0 0 0 ...                       its state is another one than the driver saw last
//
// A bit says "look": the look itself decides. A sub-connection sets its bits through its Entry; the stack and
// its driver clear them. Pure, and owned by the stack's worker.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/time.h"

namespace braid::stack {

class Agenda {
 public:
  // Of 64 sub-connections.
  struct Word {
    std::uint64_t ready = 0;
    std::uint64_t finished = 0;
    std::uint64_t changed = 0;
  };

  // One sub-connection's place. The agenda outlives it and stays where it is.
  class Entry {
   public:
    Entry(Word* word, unsigned bit, Instant* due, Instant* earliest)
        : word_(word), bit_(std::uint64_t{1} << bit), due_(due), earliest_(earliest) {}
    Instant due() const { return *due_; }
    void set_due(Instant when) {
      *due_ = when;
      if (when < *earliest_) *earliest_ = when;
    }
    void set_ready() { word_->ready |= bit_; }
    void set_finished() { word_->finished |= bit_; }
    void set_changed() { word_->changed |= bit_; }

   private:
    Word* word_;
    std::uint64_t bit_;
    Instant* due_;
    Instant* earliest_;
  };

  explicit Agenda(std::size_t size) : due_(size, Instant::never()), words_((size + 63) / 64) {}
  Agenda(const Agenda&) = delete;
  Agenda& operator=(const Agenda&) = delete;

  std::size_t size() const { return due_.size(); }
  Entry entry(std::size_t i) {
    return {&words_[i / 64], static_cast<unsigned>(i % 64), &due_[i], &earliest_};
  }

  // Sub-connections whose timers have run out become ready. Call before next_ready().
  void collect(Instant now) {
    if (earliest_ > now) return;
    collected_ = now;
    Instant earliest = Instant::never();
    for (std::size_t i = 0; i < due_.size(); ++i) {
      if (due_[i] <= now) words_[i / 64].ready |= std::uint64_t{1} << (i % 64);
      earliest = braid::earlier(earliest, due_[i]);
    }
    earliest_ = earliest;
  }
  bool any_ready() const {
    return std::any_of(words_.begin(), words_.end(), [](const Word& w) { return w.ready != 0; });
  }
  bool any_changed() const {
    return std::any_of(words_.begin(), words_.end(), [](const Word& w) { return w.changed != 0; });
  }
  // The first that is ready, in begin .. end - 1; `end` if none is.
  std::size_t next_ready(std::size_t begin, std::size_t end) const {
    while (begin < end) {
      const std::uint64_t rest = words_[begin / 64].ready >> (begin % 64);
      if (rest != 0) return std::min(end, begin + static_cast<std::size_t>(std::countr_zero(rest)));
      begin = (begin / 64 + 1) * 64;
    }
    return end;
  }
  // It was looked at, and has nothing to send before it sets a bit again or its timer runs out.
  void clear_ready(std::size_t i) { words_[i / 64].ready &= ~(std::uint64_t{1} << (i % 64)); }

  // Calls f(i) for each that has the bit, and clears it before.
  template <class F>
  void take_finished(F&& f) {
    take(&Word::finished, f);
  }
  void clear_changed() {
    for (Word& w : words_) w.changed = 0;
  }

  // The earliest of all timers.
  Instant next_due() {
    // What was due when they were collected has been looked at since, and may be due later now.
    if (earliest_ <= collected_) {
      earliest_ = Instant::never();
      for (const Instant due : due_) earliest_ = braid::earlier(earliest_, due);
    }
    return earliest_;
  }
  Instant due(std::size_t i) const { return due_[i]; }

 private:
  template <class F>
  void take(std::uint64_t Word::*kind, F& f) {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      std::uint64_t bits = words_[w].*kind;
      if (bits == 0) continue;
      words_[w].*kind = 0;
      for (; bits != 0; bits &= bits - 1) f(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  }

  std::vector<Instant> due_;
  std::vector<Word> words_;
  Instant earliest_ = Instant::never();  // no later than any of due_
  Instant collected_ = Instant::from_ns(std::numeric_limits<std::int64_t>::min());
};

}  // namespace braid::stack
