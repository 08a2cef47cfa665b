// Which releases of a cluster are in progress, and when one is complete.
//
// A release covers every write of the cluster before it: pages that are dirty when it begins and flushes that
// are still unacknowledged then. Every such set of writes to a page is tagged with the epoch in which it
// began; a release seals the current epoch and opens the next.
//
//        complete          sealed: releases in progress       open
//   ------------------|-----------|-----------|---------|----------->
//                   first_                            open_
//
// An epoch counts its writes that no home has acknowledged. A later release covers all that an earlier one
// does, so releases complete in order, and the oldest is complete when its own epoch's count is zero.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// The operation that continues when a release is complete.
struct ReleaseFor {
  enum class What : std::uint8_t { kLock, kBarrier, kSync, kUnlock } what = What::kLock;
  // The lock or barrier; kSync, kUnlock: the compute node.
  std::uint32_t id = 0;
};

class Releases {
 public:
  using Epoch = std::uint32_t;  // wraps; only its place in the ring is used

  // At most one release per lock (its token leaves), one per barrier, and one per compute node is in progress.
  explicit Releases(const EngineConfig& c)
      : slots_(std::bit_ceil(std::size_t{c.locks} + c.barriers + c.compute_nodes + 2)) {}

  Epoch open() const { return open_; }
  // A page got its first write since its last flush began; returns the tag of these writes.
  Epoch began() {
    ++slot(open_).unacknowledged;
    return open_;
  }
  // The writes of that tag have reached the home and every other copy is gone.
  void finished(Epoch tag) {
    CHECK_GT(slot(tag).unacknowledged, 0u);
    --slot(tag).unacknowledged;
  }
  void seal(ReleaseFor why) {
    CHECK_LT(in_progress() + 1, slots_.size());
    slot(open_).why = why;
    ++open_;
    CHECK_EQ(slot(open_).unacknowledged, 0u);
  }
  // The oldest release, when it is complete.
  std::optional<ReleaseFor> pop_complete() {
    if (first_ == open_ || slot(first_).unacknowledged != 0) return std::nullopt;
    return slot(first_++).why;
  }
  // An epoch in the form for state_sink.h: epochs before the oldest release in progress are all equal.
  std::uint32_t age(Epoch e) const { return e - first_; }
  void describe(StateSink& sink) const {
    sink.value(in_progress());
    for (Epoch e = first_;; ++e) {
      const Slot& s = slots_[e & (slots_.size() - 1)];
      sink.value(s.unacknowledged);
      if (e == open_) return;
      sink.values(s.why.what, s.why.id);
    }
  }
  std::size_t in_progress() const { return static_cast<Epoch>(open_ - first_); }
  // Writes of all epochs that no home has acknowledged; for check().
  std::uint64_t unacknowledged() const {
    std::uint64_t sum = 0;
    for (const Slot& s : slots_) sum += s.unacknowledged;
    return sum;
  }

 private:
  struct Slot {
    std::uint32_t unacknowledged = 0;
    ReleaseFor why;
  };
  Slot& slot(Epoch e) { return slots_[e & (slots_.size() - 1)]; }

  std::vector<Slot> slots_;
  Epoch first_ = 0;
  Epoch open_ = 0;
};

}  // namespace braid::dsm
