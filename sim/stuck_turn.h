// Whether a program keeps its turn for ever. The compute nodes of a cluster are fibres of one thread: one
// that waits in the system for what a sibling has, or spins in code that is not charged, is waited for by
// all.
//
// What a process does is read from /proc, at moments that the caller chooses; the judgement is apart from the
// reading, so that it can be tested.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/time.h"

namespace braid::sim {

// Of a process, at one moment.
struct Activity {
  enum class State : std::uint8_t {
    kRuns,     // or would if there were a processor
    kBlocked,  // by a futex: what threads' locks and conditions are made of
    kWaits,    // for something else (input, a pipe, a moment), or nobody may know for what
    kStopped,  // or traced by a debugger
  };
  State state = State::kWaits;
  Duration processor_time{};  // that all its threads have used
};

Activity read_activity(pid_t process);

class StuckTurn {
 public:
  enum class Way : std::uint8_t { kNone, kBlocked, kSpinning };

  // `now`: soon after the turn began. `limit`: more than 0.
  StuckTurn(Instant now, const Activity& activity, Duration limit)
      : limit_(limit), since_(now), used_before_(activity.processor_time) {}

  // The limit has passed: it is time to look.
  bool is_due(Instant now) const { return now - since_ >= limit_; }
  // `counted`: what the program computes is charged, so a turn in which it computes ends soon. If not,
  // spinning and computing look the same, and only being blocked is judged.
  Way look(Instant now, const Activity& activity, bool counted);

 private:
  const Duration limit_;
  // The turn's beginning, or the last moment at which there was a good reason for it to take long.
  Instant since_;
  Duration used_before_;
};

}  // namespace braid::sim
