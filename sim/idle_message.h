// The times of one message on a system where nothing else is in flight.
#pragma once

#include "sim/iccs.h"

namespace braid::sim {

// Sends a message of `bytes` between the first two clusters of `config`, whose mode must be
// Mode::kReal, once nothing of the handshakes is in flight any more. Returns all its times.
MessageReport idle_message(const IccsConfig& config, const settings::CostModel& model, std::uint32_t bytes);

// The time from hand-over to delivery: each message's in Mode::kNoContention (paper, section 4.2).
inline Duration idle_latency(const IccsConfig& config, const settings::CostModel& model,
                             std::uint32_t bytes) {
  const MessageTimes times = idle_message(config, model, bytes).times;
  return times.delivered - times.handed;
}

}  // namespace braid::sim
