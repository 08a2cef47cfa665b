#include "dsm/live/current_call.h"

#include <fmt/core.h>

#include <bit>

#include "base/check.h"

namespace braid::dsm {

CurrentCall::CurrentCall(ClusterId self, unsigned clusters)
    : self_(self), others_((~std::uint64_t{0} >> (64 - clusters)) & ~bit(self)), calls_(self, clusters) {
  CHECK_LT(unsigned{self.value()}, clusters);
}

void CurrentCall::begin(const CollectiveCall& call) {
  message_ = calls_.begin(call);
  unsent_ = others_ & ~left_;
  in_progress_ = true;
}

bool CurrentCall::complete() const {
  if (calls_.disagreement()) return true;
  for (std::uint64_t awaited = others_ & ~left_; awaited != 0; awaited &= awaited - 1) {
    const ClusterId peer(static_cast<std::uint16_t>(std::countr_zero(awaited)));
    if (!calls_.reached(peer)) return false;
  }
  return true;
}

std::string CurrentCall::missing() const {
  std::string text;
  for (std::uint64_t others = others_; others != 0; others &= others - 1) {
    const ClusterId peer(static_cast<std::uint16_t>(std::countr_zero(others)));
    if (!calls_.reached(peer)) text += fmt::format(" {}", peer.value());
  }
  return text;
}

CurrentCall::Loss CurrentCall::on_disconnected(ClusterId peer) {
  if (in_progress_ && calls_.disagreement()) return Loss::kDisagreed;
  if (!leaving_allowed_ || !calls_.has_made(peer, CallKind::kFinish)) return Loss::kLost;
  left_ |= bit(peer);
  return Loss::kLeft;
}

}  // namespace braid::dsm
