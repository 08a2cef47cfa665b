#include "dsm/live/current_call.h"

#include <fmt/core.h>

#include "base/check.h"

namespace braid::dsm {

CurrentCall::CurrentCall(ClusterId self, unsigned clusters)
    : self_(self), clusters_(clusters), calls_(self, clusters), unsent_(clusters), left_(clusters) {
  CHECK_LT(unsigned{self.value()}, clusters);
}

void CurrentCall::begin(const CollectiveCall& call) {
  message_ = calls_.begin(call);
  unsent_.clear();
  for_each_other([this](ClusterId peer) { unsent_.add(peer); });
  in_progress_ = true;
}

bool CurrentCall::complete() const {
  if (calls_.disagreement()) return true;
  bool all = true;
  for_each_other([&](ClusterId peer) { all = all && calls_.reached(peer); });
  return all;
}

std::string CurrentCall::missing() const {
  std::string text;
  for (std::uint16_t c = 0; c < clusters_; ++c) {
    const ClusterId peer(c);
    if (peer != self_ && !calls_.reached(peer)) text += fmt::format(" {}", c);
  }
  return text;
}

CurrentCall::Loss CurrentCall::on_disconnected(ClusterId peer) {
  if (in_progress_ && calls_.disagreement()) return Loss::kDisagreed;
  if (!leaving_allowed_ || !calls_.has_made(peer, CallKind::kFinish)) return Loss::kLost;
  left_.add(peer);
  return Loss::kLeft;
}

}  // namespace braid::dsm
