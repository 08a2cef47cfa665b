// The time that a machine, or a cluster, spends inside parallel(): from the moment
// when all compute nodes enter to the moment when the last one leaves.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "base/time.h"

namespace braid {

class ParallelTime {
 public:
  // All `nodes` nodes enter.
  void enter(Instant now, unsigned nodes) {
    CHECK_EQ(inside_, 0u);
    began_ = last_left_ = now;
    inside_ = nodes;
  }
  // One node leaves at `at`, which may be in the future. Returns true if it was the last one inside.
  bool leave(Instant at) {
    CHECK_LT(0u, inside_);
    last_left_ = std::max(last_left_, at);
    if (--inside_ > 0) return false;
    total_ += last_left_ - began_;
    return true;
  }

  // Inside: all time before `now` no longer counts.
  void restart(Instant now) {
    CHECK_LT(0u, inside_);
    began_ = now;
    last_left_ = std::max(last_left_, now);
    total_ = {};
  }

  // All nodes that are still inside leave.
  void end(Instant now) {
    inside_ = 0;
    last_left_ = now;
    total_ += now - began_;
  }

  // Some node is inside.
  bool is_running() const { return inside_ > 0; }
  // When the latest parallel() began, or its figures did.
  Instant began() const { return began_; }
  // When the latest node left.
  Instant last_left() const { return last_left_; }
  // The sum of all completed parallel().
  Duration total() const { return total_; }

 private:
  Instant began_;
  Instant last_left_;
  Duration total_{};
  unsigned inside_ = 0;
};

}  // namespace braid
