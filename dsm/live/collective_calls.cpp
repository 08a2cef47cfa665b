#include "dsm/live/collective_calls.h"

#include <algorithm>

#include "base/check.h"

namespace braid::dsm {

CollectiveCalls::CollectiveCalls(ClusterId self, unsigned clusters) : self_(self), received_(clusters) {}

CallMessage CollectiveCalls::begin(const CollectiveCall& call) {
  ++current_.sequence;
  current_.call = call;
  return current_;
}

bool CollectiveCalls::on_message(ClusterId from, ByteView message) {
  if (message.size() != sizeof(CallMessage) || from.value() >= received_.size() || from == self_)
    return false;
  auto call = load<CallMessage>(message.data());
  if (call.call.name.back() != '\0') return false;
  if (call.sequence != current_.sequence && call.sequence != current_.sequence + 1) return false;
  received_[from.value()][call.sequence & 1] = call;
  return true;
}

bool CollectiveCalls::reached(ClusterId peer) const {
  return latest(peer).sequence == current_.sequence;
}

bool CollectiveCalls::disagreement() const {
  for (std::uint16_t k = 0; k < received_.size(); ++k) {
    if (ClusterId(k) != self_ && reached(ClusterId(k)) && latest(ClusterId(k)).call != current_.call)
      return true;
  }
  return false;
}

bool CollectiveCalls::complete() const {
  for (std::uint16_t k = 0; k < received_.size(); ++k) {
    if (ClusterId(k) != self_ && !reached(ClusterId(k))) return false;
  }
  return !disagreement();
}

bool CollectiveCalls::has_made(ClusterId peer, CallKind kind) const {
  const Slots& slots = received_[peer.value()];
  return std::any_of(slots.begin(), slots.end(), [&](const CallMessage& m) { return m.call.kind == kind; });
}

std::string CollectiveCalls::explain() const {
  for (std::uint16_t k = 0; k < received_.size(); ++k) {
    if (ClusterId(k) == self_ || !reached(ClusterId(k)) || latest(ClusterId(k)).call == current_.call)
      continue;
    return difference(self_.value(), current_.call, k, latest(ClusterId(k)).call);
  }
  return "all clusters agree";
}

}  // namespace braid::dsm
