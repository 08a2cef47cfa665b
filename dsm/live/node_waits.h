// How compute nodes wait for their operations: they poll and serve, then yield, then sleep and leave serving to
// the server thread.
#pragma once

#include <memory>

#include "base/crowding.h"
#include "base/time.h"
#include "dsm/live/combiner.h"
#include "dsm/live/network.h"
#include "dsm/live/pollers.h"
#include "dsm/live/pulse_writer.h"

namespace braid::dsm {

class NodeWaits {
 public:
  // `compute`: nodes of the cluster, of which `computing` are to run at the same time (0: all). `network` is null when
  // there is one cluster only. All outlive this.
  NodeWaits(unsigned compute, Network* network, Combiner& combiner, Pollers& pollers, PulseWriter& pulse,
            unsigned computing = 0);

  // Returns when combiner.completion(local) is done, or at `deadline`. The thread of compute node `local`, or the
  // initial thread for it. Allocates and logs nothing.
  void wait(unsigned local, Instant deadline = Instant::never());

 private:
  struct alignas(64) Node {
    Crowding crowding;
  };

  bool serve(unsigned local, int looks);

  Combiner& combiner_;
  Pollers& pollers_;
  PulseWriter& pulse_;
  const bool connected_;       // there is a network
  const bool drives_proxies_;  // Network::moves_only_in_poll(): nothing would wake a sleeper
  const int looks_before_yield_;
  const std::unique_ptr<Node[]> nodes_;
};

}  // namespace braid::dsm
