// Notices of writes, this cluster's own and others', in the lazy protocol: for each page the newest version that a
// release has made, in the order in which this cluster learned of them. A notice says that older copies of its
// page lack writes. Each other cluster is told what it has not been told, and may not know, with the
// next message by which it can acquire (acquires.h).
//
//            told to B         told to A
//   ------------|-----------------|------------> newest        a page that is written again moves to the end
//
// So memory is bounded by the pages, with nothing to collect, and a cluster that has synchronised long ago is
// told of each page once.
//
// A barrier makes known to all what any cluster knew when it arrived. Such notices go down the barrier's tree, and to
// no cluster afterwards.
//
// Rules LZ-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/mutant.h"
#include "base/zeroed_table.h"
#include "dsm/engine/page_table.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class WriteNotices {
 public:
  // In the eager protocol there are none.
  explicit WriteNotices(const EngineConfig& config)
      : lazy_(config.protocol == Protocol::kLazy),
        self_(config.cluster),
        notices_(lazy_ ? config.pages : 0),
        told_(config.clusters) {}

  // --- Learning. LZ-2: what is not news is forgotten.

  // A release of this cluster has made that version of the page.
  void written(std::uint32_t page, std::uint32_t version) {
    if (lazy_) add(page, version, self_, false);
  }
  // `from` has told of it. `known_to_all`: it has come down a barrier's tree.
  void heard(std::uint32_t page, std::uint32_t version, ClusterId from, bool known_to_all) {
    add(page, version, from, known_to_all);
  }

  // --- Barriers. LZ-5
  // This cluster tells what it knows now, with its arrival; at the root, it knows what all others did.
  void arrived() { arrival_ = newest_; }
  // All clusters have arrived, so what this one knew at its arrival is on its way to all.
  void departed() {
    ++departures_;
    for (std::uint32_t page = last_; page != kNoPages && notices_[page].order > known_to_all_;
         page = notices_[page].previous) {
      Notice& n = notices_[page];
      if (n.order <= arrival_ && n.departure == 0) n.departure = departures_;
    }
    known_before_ = known_to_all_;
    known_to_all_ = arrival_;
  }

  // --- Telling, in the order of learning. `departs`: with the departure from a barrier, or before it.

  // The next page of which `to` must be told, kNoPages if there is none.
  std::uint32_t next(ClusterId to, bool departs) {
    if (!lazy_) return kNoPages;
    std::uint32_t page = first_untold(to, departs);
    for (; page != kNoPages && !concerns(to, notices_[page], departs); page = notices_[page].following)
      tell(to, page);
    return page;
  }
  std::uint32_t version(std::uint32_t page) const { return notices_[page].version; }
  // Whether the notice goes to every cluster.
  bool for_all(std::uint32_t page) const { return notices_[page].departure != 0; }
  void tell(ClusterId to, std::uint32_t page) {
    told_[to.value()] = notices_[page].order;
    cursor_ = {to, notices_[page].following, true};
  }

  void check() const {
    std::uint64_t order = 0;
    std::uint32_t before = kNoPages;
    for (std::uint32_t page = first_; page != kNoPages; page = notices_[page].following) {
      const Notice& n = notices_[page];
      CHECK_LT(order, n.order);
      CHECK_EQ(n.previous, before);
      order = n.order;
      before = page;
    }
    CHECK_EQ(before, last_);
    CHECK_LE(order, newest_);
    for (const std::uint64_t told : told_) CHECK_LE(told, newest_);
  }
  void describe(StateSink& sink) const {
    for (std::uint32_t page = first_; page != kNoPages; page = notices_[page].following) {
      const Notice& n = notices_[page];
      sink.values(page, n.from, described(n.departure), n.order <= arrival_, n.order <= known_to_all_);
      sink.version(PageId(page), n.version);
      for (const std::uint64_t told : told_) sink.value(n.order <= told);
    }
    sink.value(kNoPages);
  }

 private:
  struct Notice {
    std::uint64_t order = 0;  // of learning; 0: none yet
    std::uint32_t version = 0;
    std::uint32_t departure = 0;  // from a barrier, of this cluster, by which all know it; 0: not all
    std::uint32_t previous = 0;
    std::uint32_t following = 0;
    std::uint16_t from = 0;  // the cluster that told of it, or this one
  };

  // All earlier departures are equal, and the next one differs from the last.
  std::uint32_t described(std::uint32_t departure) const {
    return departure == 0 || departure < departures_ ? departure != 0 : 2 + departure - departures_;
  }
  void add(std::uint32_t page, std::uint32_t version, ClusterId from, bool known_to_all) {
    Notice& n = notices_[page];
    if (n.order != 0) {
      if (!older(n.version, version)) return;
      (n.previous == kNoPages ? first_ : notices_[n.previous].following) = n.following;
      (n.following == kNoPages ? last_ : notices_[n.following].previous) = n.previous;
    }
    n = {.order = ++newest_,
         .version = version,
         .departure = known_to_all ? departures_ + 1 : 0,
         .previous = last_,
         .following = kNoPages,
         .from = from.value()};
    (last_ == kNoPages ? first_ : notices_[last_].following) = page;
    last_ = page;
    cursor_.valid = false;
  }

  // What all knew before does not concern it: so the walk is as long as what was learned since the last barrier, also
  // where the cluster was never told anything.
  std::uint32_t first_untold(ClusterId to, bool departs) const {
    if (cursor_.valid && cursor_.to == to) return cursor_.page;
    const std::uint64_t told = std::max(told_[to.value()], departs ? known_before_ : known_to_all_);
    std::uint32_t page = kNoPages;
    for (std::uint32_t i = last_; i != kNoPages && notices_[i].order > told; i = notices_[i].previous)
      page = i;
    return page;
  }
  bool concerns(ClusterId to, const Notice& n, bool departs) const {
    if (n.from == to.value()) return false;
    if (n.departure == 0 || n.departure > departures_) return true;  // this cluster has not departed yet
    return departs && n.departure == departures_ && !mutant(Mutant::kCollectEarly);
  }

  const bool lazy_;
  const ClusterId self_;
  ZeroedTable<Notice> notices_;      // by page
  std::vector<std::uint64_t> told_;  // by cluster: the order up to which it has been told
  std::uint32_t first_ = kNoPages, last_ = kNoPages;
  std::uint64_t newest_ = 0;
  std::uint64_t arrival_ = 0;       // what was the newest when this cluster arrived at a barrier last
  std::uint64_t known_to_all_ = 0;  // the same, of the last barrier from which it has departed
  std::uint64_t known_before_ = 0;  // the same, of the one before that
  std::uint32_t departures_ = 0;
  // The next untold page of one cluster; found again after the next add().
  struct Cursor {
    ClusterId to;
    std::uint32_t page = kNoPages;
    bool valid = false;
  };
  Cursor cursor_;
};

}  // namespace braid::dsm
