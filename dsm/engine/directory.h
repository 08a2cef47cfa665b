// A home's records of its pages: which clusters have copies, the rounds that make writes
// visible by invalidating them, and whether the home should move to a page's only writer.
// Results are lists of clusters; the caller sends and protects (masters.cpp).
//
// A page's rounds, one at a time (PG-10, PG-11):
//
//   add_change         begin_round            acknowledged, of every target        end_round
//   ---------> queued ------------> initiators ----------------------------------> told: DiffDone
//              ^          invalidates copies                                         |
//              +---------------------- changes that arrive in a round ---------------+
//
// In the lazy protocol most rounds invalidate nothing, and end at once: `copies` are then the clusters that
// may have a copy of any age, and a round invalidates them only where it can make the page unshared (LZ-6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/zeroed_table.h"
#include "dsm/engine/cluster_sets.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class Directory {
 public:
  explicit Directory(const EngineConfig& config);

  // PG-13: no other cluster has, or may still have, a copy.
  bool unshared(std::uint32_t page) const;
  // In addition no copy is being sent: its home can be decided.
  bool unused(std::uint32_t page) const { return unshared(page) && masters_[page].replies == 0; }
  std::uint32_t version(std::uint32_t page) const { return masters_[page].version; }

  // --- Requests. A cluster with a valid copy (unless it may have dropped it: lazy), or with unacknowledged changes,
  // requests nothing.
  bool may_request(std::uint32_t page, ClusterId from) const;
  void add_reply(std::uint32_t page, ClusterId to);
  // The reply is sent, with the page as it is now; `to` has a copy from now on.
  void reply_sent(std::uint32_t page, ClusterId to);

  // --- Rounds. The clusters are in the order of their numbers; the lists are valid until the next round begins, or ends.
  struct RoundBegun {
    std::span<const ClusterId> targets;  // whose copies are out of date
    std::uint32_t version = 0;
  };
  struct RoundEnded {
    std::span<const ClusterId> initiators;  // whose writes are visible now
    std::uint32_t version = 0;
  };

  // PG-3, PG-18: whether the home accepts changes of the page from that cluster now.
  bool expects_change(std::uint32_t page, ClusterId from) const;
  // `copy`: lazy, the version of the writer's copy.
  void add_change(std::uint32_t page, ClusterId from, std::uint32_t copy = 0);
  // The home's own.
  void add_own_change(std::uint32_t page) { sets_.add(masters_[page].queued, self_); }
  // A DiffDone was sent: the cluster may send changes of one more page.
  void change_answered(ClusterId to);

  bool round_runs(std::uint32_t page) const { return !masters_[page].initiators.empty(); }
  // Begins a round of all queued changes; nullopt if there are none. No round may be running.
  std::optional<RoundBegun> begin_round(std::uint32_t page);
  void invalidation_sent(std::uint32_t page, ClusterId to) { sets_.remove(masters_[page].unsent, to); }
  bool awaits_acknowledgement(std::uint32_t page, ClusterId from, std::uint32_t version) const;
  // `has_changes`: changes of that cluster may be in flight although it has no copy any more (PG-23).
  void acknowledged(std::uint32_t page, ClusterId from, bool has_changes);
  // Ends the running round; nullopt while an acknowledgement is missing.
  std::optional<RoundEnded> end_round(std::uint32_t page);

  // --- Moves of the home (PG-23)
  enum class Streak : std::uint8_t {
    kShort,   // stay
    kNearly,  // one more round of this writer, and the home may move
    kFull,    // the home may move
  };
  // A round with that writer as the only one has ended.
  Streak only_writer(std::uint32_t page, ClusterId writer);
  // A compute node accessed the page at its home.
  void touched(std::uint32_t page) { masters_[page].streak = -2 * migrate_after_; }
  // This cluster no longer is the page's home, or has become it.
  void give(std::uint32_t page) { take(page, 0); }
  void take(std::uint32_t page, std::uint32_t version);

  std::uint32_t rounds() const { return rounds_; }  // that are running
  // `here`: this cluster is the page's home. `own_change`: a flush of its own is in flight.
  void check_page(std::uint32_t page, bool here, bool own_change) const;
  void check() const;
  void describe_page(std::uint32_t page, StateSink& sink) const;
  void describe(StateSink& sink) const;

 private:
  struct Master;
  bool invalidates(const Master& m) const;
  std::span<const ClusterId> list(ClusterSet set);
  void describe_set(ClusterSet set, StateSink& sink) const;
  std::int32_t next_streak(const Master& m, std::uint16_t writer) const {
    return m.streak >= 0 && m.writer != writer ? 1 : m.streak + 1;
  }

  struct Master {
    ClusterSet copies;          // clusters that may have a valid copy; never this one
    ClusterSet initiators;      // writers whose changes the running round makes visible; empty: no round
    ClusterSet queued;          // writers whose changes the next round makes visible
    ClusterSet pending;         // clusters whose acknowledgement the running round waits for
    ClusterSet unsent;          // of these, those whose invalidation is still in the outbox
    ClusterSet suspects;        // clusters whose changes may be in flight though they have no copy (PG-23)
    std::uint32_t version = 0;  // of the last round begun
    std::uint16_t replies = 0;  // in the outbox
    std::uint16_t writer = 0;   // the only initiator of the last round
    std::int32_t streak = 0;    // consecutive rounds of this writer; below zero after an access
    std::uint16_t unread = 0;   // lazy: consecutive rounds of the home alone since a copy was sent
    bool incomplete = false;    // lazy: the copy of the last writer lacks changes of others
  };

  const ClusterId self_;
  const std::uint32_t flush_window_;
  const std::int32_t migrate_after_;
  const bool lazy_;
  ZeroedTable<Master> masters_;              // by page
  ClusterSets sets_;                         // theirs
  std::vector<ClusterId> listed_;            // the last list that was returned
  std::vector<std::uint32_t> changes_from_;  // per cluster: diffs whose DiffDone was not sent
  std::uint32_t rounds_ = 0;
};

}  // namespace braid::dsm
