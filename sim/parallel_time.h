// The time that a machine spends inside parallel(): from the moment at which all compute nodes enter until
// the last of them leaves.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "base/time.h"

namespace braid::sim {

class ParallelTime {
 public:
  // All `nodes` enter.
  void enter(Instant now, unsigned nodes) {
    CHECK_EQ(inside_, 0u);
    began_ = last_left_ = now;
    inside_ = nodes;
  }
  // One leaves, at `at`, which may lie ahead. True: it was the last one inside.
  bool leave(Instant at) {
    CHECK_LT(0u, inside_);
    last_left_ = std::max(last_left_, at);
    if (--inside_ > 0) return false;
    total_ += last_left_ - began_;
    return true;
  }

  // Some node has not left.
  bool is_running() const { return inside_ > 0; }
  // Of the latest parallel().
  Instant began() const { return began_; }
  // When the last node left so far.
  Instant last_left() const { return last_left_; }
  // Of all that have ended.
  Duration total() const { return total_; }

 private:
  Instant began_;
  Instant last_left_;
  Duration total_{};
  unsigned inside_ = 0;
};

}  // namespace braid::sim
