// One compute node as the simulated machine sees it: what it does, since when, and what its time went into.
// Its program, and the clock that it computes by, are its shell's.
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

#include <cstdint>

#include "base/prng.h"
#include "base/time.h"
#include "sim/clock_rate.h"
#include "sim/parallel_time.h"
#include "sim/shell/control.h"

namespace braid::sim {

// What a compute node did with its time inside parallel().
struct NodeFigures {
  Duration computing{};
  Duration faults{};  // waiting for pages
  Duration locks{};
  Duration barriers{};
  Duration syncs{};            // of other kinds
  Duration handling{};         // of that, or of computing: messages that arrived, handled on it
  Duration held_up{};          // of `handling`, what is of computing
  std::uint64_t messages = 0;  // that it sent
};

class ComputeNode {
 public:
  enum class State : std::uint8_t { kOutside, kRunning, kAsking, kWaiting, kInCall };

  // `seed`: of the jitter of its requests.
  explicit ComputeNode(std::uint64_t seed) : random_(seed) {}

  State state() const { return state_; }
  bool is_running() const { return state_ == State::kRunning; }
  const NodeFigures& figures() const { return figures_; }

  // It asks for something, at `at`. Returns how much later than that the request comes: at most `jitter`.
  Duration ask(Request::Kind kind, Instant at, Duration jitter);
  // The page protocol has its request; when that is complete the node takes `cost` more to go on.
  void wait(Duration cost);
  // The request was for the barrier that ends parallel().
  void leave_when_resumed() { leaves_ = true; }
  void await_call() { state_ = State::kInCall; }
  void step_outside() { state_ = State::kOutside; }
  // It waits at a barrier that its cluster has put it to, whatever it did before.
  void wait_at_barrier(Instant now);

  struct Resumption {
    Instant at;             // not before it has handled its messages
    bool has_left = false;  // parallel()
  };
  // It goes on, at `at` or later.
  Resumption resume(Instant at, const ParallelTime& parallel, const ClockRate& rate);
  // All have left parallel(), the last one at `end`: it has waited from when it left itself.
  void wait_for_last(Instant end) { figures_.barriers += end - left_; }

  // A page has been opened for an access of its, which it makes at this clock; ClockRate::kNever: none has.
  std::int64_t granted_at() const { return granted_at_; }
  // It is held up before that access.
  void delay_grant(std::int64_t clock) { granted_at_ = clock; }

  // Until when it is busy with messages.
  Instant busy_until() const { return busy_until_; }
  // It has handled a message, which took so long and ends at `until`.
  void handled(Duration took, Instant until, const ParallelTime& parallel);
  void count_message() { ++figures_.messages; }

 private:
  void account(Instant at, const ParallelTime& parallel);

  State state_ = State::kOutside;
  Request::Kind waits_for_ = Request::Kind::kNone;
  bool leaves_ = false;
  std::int64_t granted_at_ = ClockRate::kNever;
  Duration cost_{};  // of going on
  Instant since_;    // it has been waiting
  Instant left_;     // parallel(), the last time
  Instant busy_until_;
  Prng random_;
  NodeFigures figures_;
};

}  // namespace braid::sim
