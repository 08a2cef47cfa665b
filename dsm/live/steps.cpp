#include "dsm/live/steps.h"

#include <algorithm>

#include "base/check.h"

namespace braid::dsm {

Steps::Steps(ClusterId self, unsigned clusters) : self_(self), heard_(clusters) {}

StepMessage Steps::begin(const StepFacts& facts) {
  ++current_.sequence;
  current_.facts = facts;
  return current_;
}

bool Steps::on_message(ClusterId from, ByteView message) {
  if (message.size() != sizeof(StepMessage) || from.value() >= heard_.size() || from == self_) return false;
  auto heard = load<StepMessage>(message.data());
  if (heard.facts.name.back() != '\0') return false;
  if (heard.sequence != current_.sequence && heard.sequence != current_.sequence + 1) return false;
  heard_[from.value()][heard.sequence & 1] = heard;
  return true;
}

bool Steps::reached(ClusterId peer) const {
  return place(peer).sequence == current_.sequence;
}

bool Steps::disagreement() const {
  for (std::uint16_t k = 0; k < heard_.size(); ++k) {
    if (ClusterId(k) != self_ && reached(ClusterId(k)) && place(ClusterId(k)).facts != current_.facts)
      return true;
  }
  return false;
}

bool Steps::complete() const {
  for (std::uint16_t k = 0; k < heard_.size(); ++k) {
    if (ClusterId(k) != self_ && !reached(ClusterId(k))) return false;
  }
  return !disagreement();
}

bool Steps::has_taken(ClusterId peer, Step step) const {
  const Places& places = heard_[peer.value()];
  return std::any_of(places.begin(), places.end(),
                     [&](const StepMessage& m) { return m.facts.step == step; });
}

std::string Steps::explain() const {
  for (std::uint16_t k = 0; k < heard_.size(); ++k) {
    if (ClusterId(k) == self_ || !reached(ClusterId(k)) || place(ClusterId(k)).facts == current_.facts)
      continue;
    return difference(self_.value(), current_.facts, k, place(ClusterId(k)).facts);
  }
  return "all clusters agree";
}

}  // namespace braid::dsm
