#include "tests/sim/flow_plan.h"

#include <algorithm>
#include <cmath>

#include "convergence/position.h"
#include "tests/sim/message_stream.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

FlowPlan draw_flow(const WorldConfig& config, Prng& random, std::size_t clients,
                   const std::function<unsigned(unsigned)>& node_of) {
  FlowPlan plan;
  plan.options.ordered = !random.chance(config.unordered);
  const auto from = static_cast<unsigned>(random.below(clients));
  auto to = static_cast<unsigned>(random.below(clients));
  while (node_of(to) == node_of(from)) to = static_cast<unsigned>(random.below(clients));
  plan.options.dispatch =
      random.chance(config.fixed) ? convergence::Dispatch::kFixed : convergence::Dispatch::kRoundRobin;
  const auto doublings = static_cast<std::uint64_t>(std::log2(config.window_kib / 4)) + 1;
  plan.ends[0].client = from;
  plan.ends[1].client = to;
  for (FlowEndPlan& end : plan.ends) {
    end.endpoint = static_cast<unsigned>(random.below(static_cast<std::uint64_t>(config.endpoints)));
    end.window_bytes = 4096u << random.below(std::max<std::uint64_t>(doublings, 1));
    end.close_early = random.chance(config.closes);
    end.messages = 1 + static_cast<std::uint32_t>(random.below(static_cast<std::uint64_t>(config.messages)));
  }
  const double when = random.chance(0.3) ? 0 : random.uniform() * config.fault_ms * 0.8;
  plan.listen_at = Instant() + from_ms(when + (random.chance(0.5) ? 0 : random.uniform() * 5));
  plan.connect_at = Instant() + from_ms(when + (random.chance(0.5) ? 0 : random.uniform() * 5));
  return plan;
}

MessageDraft draw_message(const WorldConfig& config, Prng& random, std::uint32_t piece_bytes, bool is_long) {
  MessageDraft draft;
  if (is_long) {
    const std::uint32_t longest = MessageContents::kLongestMessage - piece_bytes;
    draft.bytes = piece_bytes + 1 + static_cast<std::uint32_t>(random.below(longest));
    draft.granules = 0;
  } else if (!random.chance(0.05)) {
    draft.bytes = static_cast<std::uint32_t>(std::pow(config.max_bytes + 1, random.uniform()));
    draft.bytes = std::min(draft.bytes, piece_bytes);
    draft.granules = convergence::granules_of(draft.bytes);
  }
  return draft;
}

}  // namespace braid::sim
