// What one message meets on a system where nothing else is in flight.
#pragma once

#include "sim/iccs.h"

namespace braid::sim {

// A message of so many bytes between the first two clusters of `config`, which is as it is in Mode::kReal;
// all its times. Handed over when everything that the handshakes left behind has come to rest.
MessageReport idle_message(const IccsConfig& config, const settings::CostModel& model, std::uint32_t bytes);

// From the hand-over to the delivery: what Mode::kNoContention lets every message take (paper, section 4.2).
inline Duration idle_latency(const IccsConfig& config, const settings::CostModel& model,
                             std::uint32_t bytes) {
  const MessageTimes times = idle_message(config, model, bytes).times;
  return times.delivered - times.handed;
}

}  // namespace braid::sim
