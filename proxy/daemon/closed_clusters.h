// Clusters to which every path is closed at this end, and since when. The control plane alone can judge that
// such a cluster is silent: no sub-connection to it is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/time.h"

namespace braid::proxy {

class ClosedClusters {
 public:
  // `timeout`: how long a cluster may be closed until its peer is lost.
  explicit ClosedClusters(Duration timeout) : timeout_(timeout) {}

  // Whether it is closed at this moment. True: it was for so long, and is forgotten now.
  [[nodiscard]] bool is_lost(Instant now, ClusterId cluster, bool closed) {
    if (!closed) {
      forget(cluster);
      return false;
    }
    if (now - since_.try_emplace(cluster.value(), now).first->second < timeout_) return false;
    forget(cluster);
    return true;
  }
  bool any() const { return !since_.empty(); }
  void forget(ClusterId cluster) { since_.erase(cluster.value()); }
  // None is closed.
  void clear() { since_.clear(); }
  // The control plane did not run for `gap` until now. That time does not count; the time before it does.
  void on_scheduling_gap(Instant now, Duration gap) {
    for (auto& [cluster, since] : since_) since = std::min(now, since + gap);
  }

 private:
  Duration timeout_;
  std::map<std::uint16_t, Instant> since_;
};

}  // namespace braid::proxy
