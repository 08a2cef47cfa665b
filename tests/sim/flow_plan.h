// The plan of a fault world's connections and messages: who connects to whom and when, with which options, how
// many messages each end sends, and how long each message is. The seed draws all of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/prng.h"
#include "base/time.h"
#include "proxy/client/client.h"
#include "tests/sim/world_config.h"

namespace braid::sim {

struct FlowEndPlan {
  unsigned client = 0;
  unsigned endpoint = 0;  // of the client
  std::uint32_t window_bytes = 0;
  bool close_early = false;    // as soon as it has sent everything
  std::uint32_t messages = 1;  // that it sends
};

// The first end connects, the second listens.
struct FlowPlan {
  proxy::ConnectionOptions options;
  Instant listen_at;
  Instant connect_at;
  std::array<FlowEndPlan, 2> ends;
};

// Draws a connection between two of `clients` clients; clients of one node are never connected. `node_of`: the
// node of a client.
FlowPlan draw_flow(const WorldConfig& config, Prng& random, std::size_t clients,
                   const std::function<unsigned(unsigned)>& node_of);

// A message that is about to be sent.
struct MessageDraft {
  std::uint32_t bytes = 0;
  std::uint32_t granules = 1;  // of the receiver's window; 0: it is longer than a piece
  bool is_long() const { return granules == 0; }
};
// Draws a message of at most `piece_bytes`, or a longer one where `is_long` is set.
MessageDraft draw_message(const WorldConfig& config, Prng& random, std::uint32_t piece_bytes, bool is_long);

}  // namespace braid::sim
