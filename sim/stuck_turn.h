// Detects a program that keeps its turn for ever. The compute nodes of a
// cluster are fibres of one thread: all of them wait for one that blocks on
// something that another fibre has, or that spins in code that is not charged.
//
// The state of the process is read from /proc when the caller chooses.
// The decision is separate from the reading, so that it can be tested.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/time.h"

namespace braid::sim {

// The state of a process at one moment.
struct Activity {
  enum class State : std::uint8_t {
    kRuns,     // or is ready to run
    kBlocked,  // on a futex: a thread's lock or condition
    kWaits,    // for something else (input, a pipe, a timer), or for something unknown
    kStopped,  // or traced by a debugger
  };
  State state = State::kWaits;
  Duration processor_time{};  // used by all its threads
};

Activity read_activity(pid_t process);

class StuckTurn {
 public:
  enum class Cause : std::uint8_t { kNone, kBlocked, kSpinning };

  // `now`: soon after the turn began. `limit`: more than 0.
  StuckTurn(Instant now, const Activity& activity, Duration limit)
      : limit_(limit), since_(now), used_before_(activity.processor_time) {}

  // The limit has passed: check() is due.
  bool is_due(Instant now) const { return now - since_ >= limit_; }
  // `counted`: the program's computing is charged, so a turn in which it computes ends soon.
  // If not, spinning cannot be distinguished from computing, and only kBlocked is detected.
  Cause check(Instant now, const Activity& activity, bool counted);

 private:
  const Duration limit_;
  // The beginning of the turn, or the last moment at which a long turn had a good reason.
  Instant since_;
  Duration used_before_;
};

}  // namespace braid::sim
