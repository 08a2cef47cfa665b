// What a run of a simulated machine tells of itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "dsm/engine/engine.h"
#include "sim/compute_node.h"
#include "sim/iccs.h"

namespace braid::sim {

// Sums over messages that were delivered while parallel() ran.
struct MessageFigures {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  Duration whole{};  // from the hand-over to the delivery
  Duration wait_to_send{};
  Duration send{};           // service, until the last of it has left the NI
  Duration network{};        // the link's queue, the link, and the way
  Duration wait_for_link{};  // of that, in the link's queue
  Duration wait_to_receive{};
  Duration receive{};

  // `has_proxies`: the message went through them.
  void add(const MessageReport& report, bool has_proxies);
};

struct MachineFigures {
  Duration whole{};                     // of the run, from its first instruction to finish()
  Duration parallel{};                  // of that, inside parallel(): what follows is of this time alone
  std::vector<NodeFigures> nodes;       // of all clusters, in their order
  std::vector<ProxyFigures> proxies;    // the same
  std::vector<LinkFigures> links;       // the same: of their NIs, to the network
  std::vector<std::uint64_t> received;  // by cluster: messages that were delivered to it
  std::vector<dsm::NodeCounts> node_counts;
  std::vector<dsm::ClusterCounts> cluster_counts;
  MessageFigures messages;
  std::uint64_t events = 0;      // of the protocols: a message through one stage, or a timer
  std::uint64_t hand_overs = 0;  // of the baton
  std::uint64_t retransmissions = 0;
  std::uint64_t frames_lost = 0;
  std::uint64_t trace_hash = 0;  // over every request and every delivery, with its time
  bool counted = true;           // compute time comes from the compiler's counts, in every shell
};

}  // namespace braid::sim
