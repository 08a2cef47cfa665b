// The pages and the locks that one compute node of a simulated machine has waited for most, in bounded memory: a machine
// may have a thousand nodes and millions of pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/heavy_hitters.h"
#include "base/ids.h"
#include "base/time.h"
#include "dsm/engine/types.h"

namespace braid::sim {

struct WaitSum {
  std::uint64_t count = 0;
  Duration longest{};
};

class WaitCosts {
 public:
  // Weighed by nanoseconds. The sizes are those of live runs (dsm/live/node_costs.h).
  using Pages = HeavyHitters<PageId, WaitSum, 32, 8>;
  using Locks = HeavyHitters<dsm::LockId, WaitSum, 8, 8>;

  void on_page(PageId page, Duration waited) { add(pages_, page, waited); }
  void on_lock(dsm::LockId lock, Duration waited) { add(locks_, lock, waited); }

  // All of them, the costliest first.
  std::vector<Pages::Entry> pages() const { return pages_.heaviest(std::size_t{32} * 8); }
  std::vector<Locks::Entry> locks() const { return locks_.heaviest(std::size_t{8} * 8); }

 private:
  template <class Costs, class Key>
  static void add(Costs& costs, Key key, Duration waited) {
    if (waited.ns() <= 0) return;
    WaitSum& sum = costs.add(key, static_cast<std::uint64_t>(waited.ns()));
    ++sum.count;
    sum.longest = std::max(sum.longest, waited);
  }

  Pages pages_;
  Locks locks_;
};

}  // namespace braid::sim
