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
#include <memory>
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
    Instant earliest = Instant::never();  // no later than the timer of any of them that is not ready
  };

  // One sub-connection's place. The agenda outlives it and stays where it is; a place has one Entry.
  class Entry {
   public:
    Entry(Word* word, unsigned bit, Instant* due, Instant* earliest)
        : word_(word), bit_(std::uint64_t{1} << bit), due_(*due), shared_due_(due), earliest_(earliest) {}
    Instant due() const { return due_; }
    void set_due(Instant when) {
      due_ = when;
      *shared_due_ = when;
      if (when >= word_->earliest) return;
      word_->earliest = when;
      if (when < *earliest_) *earliest_ = when;
    }
    void set_ready() { word_->ready |= bit_; }
    void set_finished() { word_->finished |= bit_; }
    void set_changed() { word_->changed |= bit_; }

   private:
    Word* word_;
    std::uint64_t bit_;
    Instant due_;  // as *shared_due_, beside what reads it
    Instant* shared_due_;
    Instant* earliest_;
  };

  explicit Agenda(std::size_t size)
      : due_(size, Instant::never()),
        words_count_(std::max<std::size_t>(1, (size + 63) / 64)),
        words_(std::make_unique<Word[]>(words_count_)),
        words_end_(words_.get() + words_count_) {}
  Agenda(const Agenda&) = delete;
  Agenda& operator=(const Agenda&) = delete;

  std::size_t size() const { return due_.size(); }
  Entry entry(std::size_t i) {
    return {&words_[i / 64], static_cast<unsigned>(i % 64), &due_[i], &earliest_};
  }

  // May the timer of one have run out that is not ready yet? Then collect(), before any_ready() and a Round.
  bool any_due(Instant now) const { return earliest_ <= now; }
  // Those whose timers have run out become ready.
  void collect(Instant now) {
    if (any_due(now)) collect_due(now);
  }
  bool any_ready() const { return any(&Word::ready); }
  bool any_changed() const { return any(&Word::changed); }
  bool any_finished() const { return any(&Word::finished); }

  // The entries that are ready, each once: from `first` on, then those before it. What becomes ready
  // meanwhile may be left out.
  class Round {
   public:
    Round(const Agenda& agenda, std::size_t first)
        : agenda_(agenda),
          word_(first / 64),
          left_(agenda.words_count_),
          before_first_((std::uint64_t{1} << (first % 64)) - 1),
          bits_(agenda.words_[word_].ready & ~before_first_) {}
    // False at the end.
    bool next(std::size_t& i) {
      while (bits_ == 0) {
        if (left_ == 0) return false;
        if (++word_ == agenda_.words_count_) word_ = 0;
        bits_ = agenda_.words_[word_].ready;
        if (--left_ == 0) bits_ &= before_first_;  // the first word once more
      }
      i = word_ * 64 + static_cast<std::size_t>(std::countr_zero(bits_));
      bits_ &= bits_ - 1;
      return true;
    }

   private:
    const Agenda& agenda_;
    std::size_t word_;
    std::size_t left_;
    std::uint64_t before_first_;
    std::uint64_t bits_;  // of the word, not yet visited
  };

  // It was looked at, its timer has not run out, and it has nothing to send before it sets a bit again.
  void clear_ready(std::size_t i) { words_[i / 64].ready &= ~(std::uint64_t{1} << (i % 64)); }

  // Calls f(i) for each that has the bit, and clears it before.
  template <class F>
  void take_finished(F&& f) {
    take(&Word::finished, f);
  }
  template <class F>
  void take_changed(F&& f) {
    take(&Word::changed, f);
  }

  // No later than any timer that is still to run out or to be looked at; earlier ones cost a look.
  Instant next_due() const {
    Instant next = earliest_;
    if (!any_ready()) return next;
    Round round(*this, 0);
    for (std::size_t i = 0; round.next(i);) next = braid::earlier(next, due_[i]);
    return next;
  }
  Instant due(std::size_t i) const { return due_[i]; }

 private:
  bool any(std::uint64_t Word::*kind) const {
    const Word* w = words_.get();
    do {
      if (w->*kind != 0) return true;
    } while (++w != words_end_);
    return false;
  }
  template <class F>
  void take(std::uint64_t Word::*kind, F& f) {
    for (std::size_t w = 0; w < words_count_; ++w) {
      std::uint64_t bits = words_[w].*kind;
      if (bits == 0) continue;
      words_[w].*kind = 0;
      for (; bits != 0; bits &= bits - 1) f(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  }

  [[gnu::noinline]] void collect_due(Instant now) {
    earliest_ = Instant::never();
    for (std::size_t w = 0; w < words_count_; ++w) {
      if (words_[w].earliest <= now) collect_due(now, words_[w], w * 64);
      earliest_ = braid::earlier(earliest_, words_[w].earliest);
    }
  }
  void collect_due(Instant now, Word& word, std::size_t first) {
    word.earliest = Instant::never();
    for (std::size_t i = first; i < std::min(first + 64, due_.size()); ++i) {
      if (due_[i] <= now)
        word.ready |= std::uint64_t{1} << (i % 64);
      else
        word.earliest = braid::earlier(word.earliest, due_[i]);
    }
  }

  std::vector<Instant> due_;
  std::size_t words_count_;
  std::unique_ptr<Word[]> words_;  // at least one
  const Word* words_end_;
  Instant earliest_ = Instant::never();  // no later than the timer of any that is not ready
};

}  // namespace braid::stack
