// Whether the other end of a connection lives: both ends say something every kBeat. Pure.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace braid::cli {

class Liveness {
 public:
  static constexpr Duration kBeat = 250_ms;
  // Who has said nothing for so long is lost. What TCP sends again after a link was down for 2 s comes within 3.4 s.
  static constexpr Duration kLost = 4_s;

  // Before all others. The first word may come so much later than kLost.
  void start(Instant now, Duration patience = {}) {
    looked_ = now;
    heard_ = now + patience;
  }
  void on_word(Instant now) { heard_ = now; }
  // Nobody listens now, so silence up to here says nothing about the other end.
  void on_inattention(Instant now) { heard_ = std::max(heard_, now); }
  // Call it at every turn. The time in which nobody called, because this process was stopped or had no processor, says nothing
  // about the other end.
  [[nodiscard]] bool is_lost(Instant now) {
    if (const Duration gap = now - looked_; gap > kBeat + kBeat) heard_ = heard_ + gap;
    looked_ = now;
    return now - heard_ > kLost;
  }

 private:
  Instant heard_, looked_;
};

}  // namespace braid::cli
