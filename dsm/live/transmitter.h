// Sends the messages of this cluster's page engine, and its collective call, to the other clusters.
//
// Owned by the holder of the combiner lock, all but pending(). Allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "dsm/engine/engine.h"
#include "dsm/live/current_call.h"
#include "dsm/live/network.h"

namespace braid::dsm {

class Transmitter {
 public:
  // `network` is null when there is one cluster only. All outlive the transmitter.
  Transmitter(Network* network, Engine& engine, CurrentCall& call)
      : network_(network), engine_(engine), call_(call) {}

  // Sends everything that the network has room for, as `compute_node`. Messages for a cluster that has left
  // are not sent.
  void send(unsigned compute_node) {
    if (network_ == nullptr) return;
    if (!engine_.output_clusters().empty() || !call_.unsent().empty()) {
      send_all(compute_node);
    } else if (pending_.load(std::memory_order_relaxed)) {
      // Read before it is written: most calls come here, and the line is shared.
      pending_.store(false, std::memory_order_relaxed);
    }
  }

  // Output waits for room in the network: send() must be called again, although no bell will ring for it.
  // Any thread, without the combiner lock.
  bool pending(std::memory_order order = std::memory_order_seq_cst) const { return pending_.load(order); }

 private:
  void send_all(unsigned compute_node);
  bool send_to(ClusterId to, unsigned compute_node);
  bool send_call(ClusterId to, unsigned compute_node);

  Network* const network_;
  Engine& engine_;
  CurrentCall& call_;
  std::atomic<bool> pending_{false};
};

}  // namespace braid::dsm
