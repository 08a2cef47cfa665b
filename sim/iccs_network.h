// The network between the proxies of a simulated ICCS: a link out of every NI, whose faults and cuts lose, delay
// and duplicate frames.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "sim/links.h"
#include "sim/proxy_run.h"

namespace braid::sim {

// The figures of the link out of one NI, over the measured time.
struct LinkFigures {
  std::uint64_t frames = 0;  // that it carried
  std::uint64_t bytes = 0;   // of these
  Duration busy{};           // sending them
  Duration waited{};         // sum over them, until the link was free
};

struct IccsNetworkConfig {
  std::uint16_t clusters = 2;
  std::uint16_t proxies = 1;  // per cluster
  std::uint16_t nis = 1;      // per cluster
  LinkConfig link;            // out of each NI
  FaultConfig faults;
  std::uint64_t seed = 1;
};

class IccsNetwork {
 public:
  // `shared`: frames and events of all proxies; it lives longer.
  IccsNetwork(const IccsNetworkConfig& config, IccsShared& shared);

  // A frame has left its proxy. Its arrivals come into the event queue, or it is lost and its buffer free.
  void send(ClusterId from, unsigned proxy, std::uint32_t frame);
  // Every frame to and from the NI is lost until then.
  void fail_ni(ClusterId cluster, unsigned ni, Instant until) { links_.cut_ni(cluster.value(), ni, until); }

  const LinkFigures& figures(ClusterId cluster, unsigned ni) const {
    return figures_[cluster.value() * config_.nis + ni];
  }
  void reset_figures() { figures_.assign(figures_.size(), {}); }
  std::uint64_t frames_lost() const { return frames_lost_; }

 private:
  const IccsNetworkConfig config_;
  IccsShared& shared_;
  Links links_;
  std::vector<LinkFigures> figures_;  // by cluster, then NI
  std::uint64_t frames_lost_ = 0;
};

}  // namespace braid::sim
