// The figures of a run of a simulated machine.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "dsm/engine/engine.h"
#include "sim/compute_node.h"
#include "sim/iccs.h"
#include "sim/phase_history.h"
#include "sim/wait_costs.h"

namespace braid::sim {

// Sums over messages that were delivered while parallel() ran.
struct MessageFigures {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  Duration whole{};  // from the hand-over to the delivery
  Duration wait_to_send{};
  Duration send{};           // service, until the last frame has left the NI
  Duration network{};        // the link's queue, serialisation and propagation
  Duration wait_for_link{};  // the part of `network` in the link's queue
  Duration wait_to_receive{};
  Duration receive{};

  // `has_proxies`: the message went through proxies.
  void add(const MessageReport& report, bool has_proxies);
};

struct MachineFigures {
  Duration whole{};  // the run, from its first instruction to finish()
  // The part inside parallel(), since the program has last called reset_figures(). All that follows is of this part, but
  // `events`, `hand_overs` and `trace_hash`.
  Duration parallel{};
  std::vector<NodeFigures> nodes;       // of all clusters, in their order
  std::vector<ProxyFigures> proxies;    // likewise
  std::vector<LinkFigures> links;       // likewise: of their NIs, to the network
  std::vector<std::uint64_t> received;  // by cluster: messages delivered to it
  std::vector<dsm::NodeCounts> node_counts;
  std::vector<dsm::ClusterCounts> cluster_counts;
  std::vector<WaitCosts> waits;  // by compute node: the pages and locks that it waited for most
  PhaseHistory sent;             // the page protocol's messages of all clusters
  MessageFigures messages;
  std::uint64_t events = 0;      // protocol events: a message in one stage, or a timer
  std::uint64_t hand_overs = 0;  // of the baton
  std::uint64_t retransmissions = 0;
  std::uint64_t spurious_retransmissions = 0;  // of these, of packets that had arrived
  std::uint64_t frames_lost = 0;
  std::uint64_t trace_hash = 0;  // over every request and every delivery, with its time
  bool counted = true;           // compute time comes from the compiler's counts, in every shell
};

}  // namespace braid::sim
