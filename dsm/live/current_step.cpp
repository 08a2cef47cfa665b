#include "dsm/live/current_step.h"

#include <fmt/format.h>

#include <bit>

#include "base/check.h"

namespace braid::dsm {

CurrentStep::CurrentStep(ClusterId self, unsigned clusters)
    : self_(self), others_((~std::uint64_t{0} >> (64 - clusters)) & ~bit(self)), steps_(self, clusters) {
  CHECK_LT(unsigned{self.value()}, clusters);
}

void CurrentStep::begin(const StepFacts& facts) {
  message_ = steps_.begin(facts);
  unsent_ = others_ & ~left_;
  in_progress_ = true;
}

bool CurrentStep::complete() const {
  if (steps_.disagreement()) return true;
  for (std::uint64_t awaited = others_ & ~left_; awaited != 0; awaited &= awaited - 1) {
    const ClusterId peer(static_cast<std::uint16_t>(std::countr_zero(awaited)));
    if (!steps_.reached(peer)) return false;
  }
  return true;
}

std::string CurrentStep::missing() const {
  std::string text;
  for (std::uint64_t others = others_; others != 0; others &= others - 1) {
    const ClusterId peer(static_cast<std::uint16_t>(std::countr_zero(others)));
    if (!steps_.reached(peer)) text += fmt::format(" {}", peer.value());
  }
  return text;
}

CurrentStep::Loss CurrentStep::on_disconnected(ClusterId peer) {
  if (in_progress_ && steps_.disagreement()) return Loss::kDisagreed;
  if (!leaving_allowed_ || !steps_.has_taken(peer, Step::kFinish)) return Loss::kLost;
  left_ |= bit(peer);
  return Loss::kLeft;
}

}  // namespace braid::dsm
