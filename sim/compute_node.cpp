#include "sim/compute_node.h"

#include <algorithm>

#include "base/check.h"

namespace braid::sim {

Duration ComputeNode::ask(Request::Kind kind, Instant at, Duration jitter) {
  CHECK(state_ == State::kRunning);
  state_ = State::kAsking;
  waits_for_ = kind;
  since_ = at;
  return Duration::ns(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(jitter.ns()) + 1)));
}

void ComputeNode::wait(Duration cost) {
  CHECK(state_ == State::kAsking);
  state_ = State::kWaiting;
  cost_ = cost;
}

void ComputeNode::wait_at_barrier(Instant now) {
  state_ = State::kWaiting;
  waits_for_ = Request::Kind::kBarrier;
  since_ = now;
}

// A wait counts if it was inside parallel() and not for a collective call.
Duration ComputeNode::waited(Instant at, const ParallelTime& parallel) const {
  if (!parallel.is_running() || state_ == State::kOutside || state_ == State::kInCall) return {};
  return at - std::max(since_, parallel.began());
}

void ComputeNode::account(Duration waited) {
  switch (waits_for_) {
    case Request::Kind::kFault:
      figures_.faults += waited;
      return;
    case Request::Kind::kBarrier:
      figures_.barriers += waited;
      return;
    case Request::Kind::kLock:
    case Request::Kind::kUnlock:
    case Request::Kind::kTryLock:
      figures_.locks += waited;
      return;
    case Request::Kind::kNone:
    case Request::Kind::kSync:
    case Request::Kind::kAllocate:
    case Request::Kind::kPrefetch:
    case Request::Kind::kResetFigures:
    case Request::Kind::kCollective:
    case Request::Kind::kIdle:
    case Request::Kind::kRunOnCluster:
      figures_.syncs += waited;
      return;
  }
}

void ComputeNode::leave_parallel(Instant now, const ParallelTime& parallel) {
  if (!is_running()) account(waited(now, parallel));
}

ComputeNode::Resumption ComputeNode::resume(Instant at, const ParallelTime& parallel, const ClockRate& rate) {
  at = std::max(at + cost_, busy_until_);
  cost_ = {};
  const Duration wait = waited(at, parallel);
  account(wait);
  granted_at_ = waits_for_ == Request::Kind::kFault ? rate.to_cycles(at) : ClockRate::kNever;
  state_ = State::kRunning;
  waits_for_ = Request::Kind::kNone;
  if (!leaves_) return {.at = at, .has_left = false, .waited = wait};
  leaves_ = false;
  left_ = at;
  return {.at = at, .has_left = true, .waited = wait};
}

void ComputeNode::handled(Duration took, Instant until, const ParallelTime& parallel) {
  busy_until_ = until;
  if (!parallel.is_running()) return;
  figures_.handling += took;
  if (is_running()) figures_.held_up += took;
}

}  // namespace braid::sim
