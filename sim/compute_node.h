// The state of one compute node in the simulated machine, since when it has it, and
// what its time was spent on. Its program and its clock are the shell's (sim/shell).
//
//               ask()              wait()
//   kRunning ---------> kAsking ----------> kWaiting      the page protocol has its request
//      ^                   |
//      |                   +------------->  kInCall       all clusters must make the call first
//      |                   |  await_call()
//      |                   +------------->  kOutside      parallel() is over, or has not begun
//      |                      step_outside()    |
//      +---------------------- resume() --------+
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/parallel_time.h"
#include "base/prng.h"
#include "base/time.h"
#include "sim/clock_rate.h"
#include "sim/shell/control.h"

namespace braid::sim {

// How a compute node spent its time inside parallel().
struct NodeFigures {
  Duration computing{};
  Duration faults{};  // waiting for pages
  Duration locks{};
  Duration barriers{};
  Duration syncs{};            // waiting for anything else
  Duration handling{};         // in any of these: handling messages that arrived
  Duration held_up{};          // the part of `handling` that delayed computing
  std::uint64_t messages = 0;  // sent by this node
};

class ComputeNode {
 public:
  enum class State : std::uint8_t { kOutside, kRunning, kAsking, kWaiting, kInCall };

  // `seed` draws the jitter of its requests.
  explicit ComputeNode(std::uint64_t seed) : random_(seed) {}

  State state() const { return state_; }
  bool is_running() const { return state_ == State::kRunning; }
  const NodeFigures& figures() const { return figures_; }

  // The node makes a request at `at`. Returns its delay, which is at most `jitter`.
  Duration ask(Request::Kind kind, Instant at, Duration jitter);
  // The page protocol has the request. When it is complete, the node continues after a further `cost`.
  void wait(Duration cost);
  // The request was for the barrier that ends parallel().
  void leave_when_resumed() { leaves_ = true; }
  void await_call() { state_ = State::kInCall; }
  void step_outside() { state_ = State::kOutside; }
  // The node's cluster makes it wait at a barrier, whatever it did before.
  void wait_at_barrier(Instant now);

  struct Resumption {
    Instant at;             // not before it has handled its messages
    bool has_left = false;  // it has left parallel()
    Duration waited{};      // the part of its wait that its figures count
  };
  // The node continues at `at` or later.
  Resumption resume(Instant at, const ParallelTime& parallel, const ClockRate& rate);
  // The node leaves parallel(), whatever it does or waits for.
  void leave_parallel(Instant now, const ParallelTime& parallel);
  // All nodes have left parallel(), the last one at `end`. The time since this node left was a wait.
  void wait_for_last(Instant end, const ParallelTime& parallel) {
    figures_.barriers += end - std::max(left_, parallel.began());
  }
  // What it has done so far no longer counts.
  void reset_figures() { figures_ = {}; }

  // The clock of the access for which a page has been opened; ClockRate::kNever: there is none.
  std::int64_t granted_at() const { return granted_at_; }
  // That access is delayed.
  void delay_grant(std::int64_t clock) { granted_at_ = clock; }

  // The node handles messages until then.
  Instant busy_until() const { return busy_until_; }
  // The node has handled a message, for `took`, until `until`.
  void handled(Duration took, Instant until, const ParallelTime& parallel);
  void count_message() { ++figures_.messages; }

  // What it waits for, while it does.
  Request::Kind waits_for() const { return waits_for_; }

 private:
  Duration waited(Instant at, const ParallelTime& parallel) const;
  void account(Duration waited);

  State state_ = State::kOutside;
  Request::Kind waits_for_ = Request::Kind::kNone;
  bool leaves_ = false;
  std::int64_t granted_at_ = ClockRate::kNever;
  Duration cost_{};  // of continuing
  Instant since_;    // it waits since then
  Instant left_;     // when it last left parallel()
  Instant busy_until_;
  Prng random_;
  NodeFigures figures_;
};

}  // namespace braid::sim
