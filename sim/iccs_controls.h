// The control planes of a simulated ICCS: when each takes a turn, and what its proxies have to do for it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "sim/events.h"
#include "sim/proxy_run.h"
#include "sim/virtual_node.h"

namespace braid::sim {

class IccsControls {
 public:
  // `proxies` holds those of cluster 0 first, as many of each; both lists may be filled later.
  IccsControls(Events& events, const std::vector<std::unique_ptr<VirtualNode>>& nodes,
               const std::vector<std::unique_ptr<ProxyRun>>& proxies, unsigned clusters)
      : events_(events), nodes_(nodes), proxies_(proxies), controls_(clusters) {}

  // The control plane takes a turn at `at`, unless it takes one earlier.
  void wake(ClusterId cluster, Instant at);
  // From now on each looks after its proxies periodically: something may happen to them.
  void watch();
  // A proxy has worked: it may have told its control plane something, or carried out a command.
  void on_worked(ProxyRun& proxy);
  // Handles kControl. Returns a connection that the cluster has lost.
  std::optional<VirtualNode::Lost> on_event(ClusterId cluster);

 private:
  struct Control {
    Instant due = Instant::never();  // the event that counts
    bool waits = false;              // for proxies to carry out commands
  };

  std::size_t proxies_each() const { return proxies_.size() / controls_.size(); }
  ProxyRun& proxy(ClusterId cluster, std::size_t index) {
    return *proxies_[cluster.value() * proxies_each() + index];
  }
  std::optional<VirtualNode::Lost> take_turn(ClusterId cluster);

  Events& events_;
  const std::vector<std::unique_ptr<VirtualNode>>& nodes_;  // by cluster
  const std::vector<std::unique_ptr<ProxyRun>>& proxies_;
  std::vector<Control> controls_;  // by cluster
  bool watching_ = false;
};

}  // namespace braid::sim
