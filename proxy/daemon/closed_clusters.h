// Clusters to which every path is closed at this end, and since when. Nobody but the control plane knows that
// nothing is heard of such a cluster: no sub-connection is left that could judge.
#pragma once

#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/time.h"

namespace braid::proxy {

class ClosedClusters {
 public:
  // `patience`: how long a cluster may be closed until its peer is lost.
  explicit ClosedClusters(Duration patience) : patience_(patience) {}

  // Whether it is closed at this moment. True: it was for so long, and is forgotten now.
  [[nodiscard]] bool is_lost(Instant now, ClusterId cluster, bool closed) {
    if (!closed) {
      forget(cluster);
      return false;
    }
    if (now - since_.try_emplace(cluster.value(), now).first->second < patience_) return false;
    forget(cluster);
    return true;
  }
  bool any() const { return !since_.empty(); }
  void forget(ClusterId cluster) { since_.erase(cluster.value()); }
  // All of them: none is closed, or the time that passed says nothing.
  void restart() { since_.clear(); }

 private:
  Duration patience_;
  std::map<std::uint16_t, Instant> since_;
};

}  // namespace braid::proxy
