// What a home knows of its pages: which clusters have copies, the rounds that make writes visible by
// invalidating them, and whether the home should follow a page's only writer. It answers with sets of
// clusters, a bit each; sending and protecting are the caller's (masters.cpp).
//
// A page's rounds, one at a time (PG-10, PG-11):
//
//   add_change         begin_round            acknowledged, of every target        end_round
//   ---------> queued ------------> initiators ----------------------------------> told: DiffDone
//              ^          invalidates copies                                         |
//              +---------------------- changes that arrive in a round ---------------+
//
// The rounds are the eager protocol's. Copies, versions and moves of the home serve any home-based protocol.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/zeroed_table.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// A set of clusters.
constexpr std::uint64_t bit_of(ClusterId c) {
  return std::uint64_t{1} << c.value();
}
template <class Use>
void for_each_cluster(std::uint64_t clusters, Use&& use) {
  for (; clusters != 0; clusters &= clusters - 1)
    use(ClusterId(static_cast<std::uint16_t>(std::countr_zero(clusters))));
}

class Directory {
 public:
  explicit Directory(const EngineConfig& config);

  // PG-13: no other cluster has, or may still have, a copy.
  bool unshared(std::uint32_t page) const;
  // Nor is any to get one: its home can be decided.
  bool unused(std::uint32_t page) const { return unshared(page) && masters_[page].replies == 0; }
  std::uint32_t version(std::uint32_t page) const { return masters_[page].version; }

  // --- Requests. A cluster with a valid copy, or with changes that are not acknowledged, asks for nothing.
  bool may_request(std::uint32_t page, ClusterId from) const;
  void add_reply(std::uint32_t page, ClusterId to);
  // The reply leaves, with the page as it is now; `to` has a copy from now on.
  void reply_sent(std::uint32_t page, ClusterId to);

  // --- Rounds
  struct RoundBegun {
    std::uint64_t targets = 0;  // whose copies are out of date
    std::uint32_t version = 0;
  };
  struct RoundEnded {
    std::uint64_t initiators = 0;  // whose writes are visible now
    std::uint32_t version = 0;
  };

  // PG-3, PG-18: does the home take changes of the page from that cluster now?
  bool expects_change(std::uint32_t page, ClusterId from) const;
  void add_change(std::uint32_t page, ClusterId from);
  // The home's own.
  void add_own_change(std::uint32_t page) { masters_[page].queued |= bit_of(self_); }
  // A DiffDone has left: the cluster may send changes of one page more.
  void change_answered(ClusterId to);

  bool round_runs(std::uint32_t page) const { return masters_[page].initiators != 0; }
  // Begins a round of all queued changes; nothing when there are none. No round may be running.
  std::optional<RoundBegun> begin_round(std::uint32_t page);
  void invalidation_sent(std::uint32_t page, ClusterId to) { masters_[page].unsent &= ~bit_of(to); }
  bool awaits_acknowledgement(std::uint32_t page, ClusterId from, std::uint32_t version) const;
  // `has_changes`: changes of that cluster's may be in flight though it has no copy any more (PG-23).
  void acknowledged(std::uint32_t page, ClusterId from, bool has_changes);
  // Ends the running round; nothing while an acknowledgement is missing.
  std::optional<RoundEnded> end_round(std::uint32_t page);

  // --- Where the home should be (PG-23)
  enum class Streak : std::uint8_t {
    kShort,   // stay
    kNearly,  // one more round of this writer, and the home may move
    kFull,    // the home may move
  };
  // A round of that writer alone has ended.
  Streak only_writer(std::uint32_t page, ClusterId writer);
  // A compute node touched the page at its home.
  void touched(std::uint32_t page) { masters_[page].streak = -2 * migrate_after_; }
  // This cluster is the page's home no more, or has become it.
  void give(std::uint32_t page) { masters_[page] = {}; }
  void take(std::uint32_t page, std::uint32_t version) { masters_[page] = {.version = version}; }

  std::uint32_t rounds() const { return rounds_; }  // that run
  // `here`: this cluster is the page's home. `own_change`: a flush of its own is in flight.
  void check_page(std::uint32_t page, bool here, bool own_change) const;
  void check() const;
  void describe_page(std::uint32_t page, StateSink& sink) const;
  void describe(StateSink& sink) const;

 private:
  struct Master {
    std::uint64_t copies = 0;      // who may have a valid copy; never this cluster
    std::uint64_t initiators = 0;  // whose writes the running round makes visible; zero: no round runs
    std::uint64_t queued = 0;      // whose writes the next round makes visible
    std::uint64_t pending = 0;     // whose acknowledgement the running round waits for
    std::uint64_t unsent = 0;      // of these, whose invalidation still is in the outbox
    std::uint64_t suspects = 0;    // whose changes may be in flight though they have no copy (PG-23)
    std::uint32_t version = 0;     // of the last round begun
    std::uint16_t replies = 0;     // that have not left
    std::uint16_t writer = 0;      // the only initiator of the last round
    std::int32_t streak = 0;       // rounds of this writer one after the other; below zero after a touch
  };

  const ClusterId self_;
  const std::uint32_t flush_window_;
  const std::int32_t migrate_after_;
  ZeroedTable<Master> masters_;              // by page
  std::vector<std::uint32_t> changes_from_;  // per cluster: diffs whose DiffDone has not left
  std::uint32_t rounds_ = 0;
};

}  // namespace braid::dsm
