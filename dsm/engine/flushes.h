// The pages that this cluster has written and not flushed, the order in which they are
// flushed, and when a release is complete. It handles page numbers only: the caller
// decides what a flush is (a diff to the page's home, or a round of the home itself).
//
// The states of a page, for copies and masters alike:
//
//           add                begin             sent              end
//   (clean) ----> listed ---------------> queued -----> in flight -----> (clean)
//                 ^    next() gives the page |              |
//                 |                          | nothing_new  | written in the meantime: add;
//                 |                          v              | next() or hasten(): `second`
//                 |                       (clean)           v
//                 +----------- urgent <------------------- end, if `second`
//
// A dirty page is in one of three lists. Copies and masters are in the order of their first writes; they may
// be flushed when a release covers them. Urgent pages may be flushed at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/zeroed_table.h"
#include "dsm/engine/releases.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class Flushes {
 public:
  enum class Side : std::uint8_t { kCopy, kMaster };
  enum class Flight : std::uint8_t { kNone, kQueued, kSent };

  explicit Flushes(const EngineConfig& config);

  // --- Writes and releases

  // Call for the page's first write since its last flush began.
  void add(std::uint32_t page, Side side);
  // The listed page needs no flush, because there is no copy of it.
  void drop(std::uint32_t page);
  // The page was added since the last release; it is still dirty.
  bool added_since_release(std::uint32_t page) const { return states_[page].dirty_tag == releases_.open(); }
  // Calls use(page) for every listed page that was added since the last release; it may drop() that page.
  template <class Use>
  void for_each_since_release(Use&& use) {
    for (const Listed which : {Listed::kCopies, Listed::kMasters}) {
      for (std::uint32_t page = list(which).last; page != kNoPages && added_since_release(page);) {
        const std::uint32_t before = states_[page].previous;
        use(page);
        page = before;
      }
    }
  }
  // A release begins: it covers all writes so far (PG-17). When they are flushed pop_complete() returns `why`.
  void seal(ReleaseFor why) { releases_.seal(why); }
  std::optional<ReleaseFor> pop_complete() { return releases_.pop_complete(); }

  // --- Flushes

  // The next page whose flush may begin, taken from its list; kNoPages when there is none or the window is
  // full. `neighbour` comes first if a release covers it: neighbours share messages (PG-21). A page with a
  // flush in flight is passed over: its second flush begins after the first one's acknowledgement (PG-3).
  std::uint32_t next(std::uint32_t neighbour = kNoPages);
  // The dirty copy with the earliest first write that is neither released nor urgent; kNoPages: none.
  std::uint32_t oldest_copy() const { return list(Listed::kCopies).first; }
  // The page is flushed as soon as possible, whether or not a release covers it.
  void hasten(std::uint32_t page);

  // The result for a page from next(): its flush is queued, is in flight at once, or has nothing to make
  // visible.
  void begin(std::uint32_t page);
  void begin_sent(std::uint32_t page);
  void nothing_new(std::uint32_t page) { releases_.finished(states_[page].dirty_tag); }
  // The queued flush was sent.
  void sent(std::uint32_t page);
  // The flush in flight is acknowledged: its writes are visible everywhere.
  void end(std::uint32_t page);

  Flight flight(std::uint32_t page) const { return states_[page].flight; }
  // The page's writes are sent as soon as possible, without a release.
  bool hastened(std::uint32_t page) const;
  // The number of twins that become free without a further release.
  std::uint32_t copies_soon_flushed() const { return copies_in_flight_ + list(Listed::kUrgent).size; }

  // No flush or release in progress. Pages may be dirty.
  bool quiet() const;
  // Checks the state of one page, given whether it is dirty.
  void check_page(std::uint32_t page, Side side, bool dirty) const;
  void check() const;
  void describe_page(std::uint32_t page, bool dirty, StateSink& sink) const;
  void describe(StateSink& sink) const;

 private:
  enum class Listed : std::uint8_t { kNot, kCopies, kMasters, kUrgent };

  struct State {
    Flight flight = Flight::kNone;
    Listed listed = Listed::kNot;
    bool second = false;             // a second flush waits for the first one's acknowledgement (PG-3)
    Side side = Side::kCopy;         // while dirty or in flight
    Releases::Epoch dirty_tag = 0;   // dirty: of the writes that no flush has taken
    Releases::Epoch flight_tag = 0;  // kSent: of the writes in flight
    // While listed: its neighbours, or kNoPages.
    std::uint32_t previous = 0;
    std::uint32_t following = 0;
  };

  struct List {
    std::uint32_t first = kNoPages;
    std::uint32_t last = kNoPages;
    std::uint32_t size = 0;
  };

  List& list(Listed which) { return lists_[static_cast<std::size_t>(which)]; }
  const List& list(Listed which) const { return lists_[static_cast<std::size_t>(which)]; }
  std::uint32_t first() const;
  void push(Listed which, std::uint32_t page);
  void unlink(std::uint32_t page);

  const std::uint32_t window_;
  Releases releases_;
  ZeroedTable<State> states_;           // by page
  std::array<List, 4> lists_;           // by Listed; the first is not used
  std::uint32_t in_flight_ = 0;         // queued or sent, copies and masters; at most the window (PG-18)
  std::uint32_t copies_in_flight_ = 0;  // of these, copies
};

}  // namespace braid::dsm
