#include "dsm/live/steps.h"

#include <algorithm>

#include "base/check.h"
#include "dsm/api.h"

namespace braid::dsm {

const char* text_of(Step step) {
  switch (step) {
    case Step::kNone:
      return "nothing";
    case Step::kHello:
      return "joining";
    case Step::kAllocate:
      return "allocate()";
    case Step::kParallel:
      return "parallel()";
    case Step::kFinish:
      return "finish()";
    case Step::kGoodbye:
      return "the goodbye";
  }
  return "an unknown step";
}

namespace {

std::string text_of_placement(const StepFacts& facts) {
  switch (static_cast<Placement::Kind>(facts.numbers[1])) {
    case Placement::Kind::kBlock:
      return "block";
    case Placement::Kind::kCyclic:
      return "cyclic";
    case Placement::Kind::kCluster:
      return fmt::format("on cluster {}", facts.numbers[2]);
    case Placement::Kind::kFirstTouch:
      return "first touch";
  }
  return "unknown placement";
}

std::string hello_difference(unsigned self, const StepFacts& mine, unsigned peer, const StepFacts& theirs) {
  static constexpr const char* kNumbers[] = {"runtime version", "BRAID_CLUSTERS", "BRAID_COMPUTE",
                                             "BRAID_HEAP_MIB"};
  for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
    if (mine.numbers[i] != theirs.numbers[i]) {
      return fmt::format(
          "{} is {} here in cluster {}, but {} in cluster {}: it must be the same in all clusters",
          kNumbers[i], mine.numbers[i], self, theirs.numbers[i], peer);
    }
  }
  return fmt::format("cluster {} runs '{}', but cluster {} runs '{}': all clusters run the same program",
                     self, mine.name.data(), peer, theirs.name.data());
}

}  // namespace

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
    const StepFacts& mine = current_.facts;
    const StepFacts& theirs = place(ClusterId(k)).facts;
    if (mine.step != theirs.step) {
      return fmt::format(
          "cluster {} called {} where cluster {} called {}: all clusters must make the same calls",
          self_.value(), text_of(mine.step), k, text_of(theirs.step));
    }
    if (mine.step == Step::kHello) return hello_difference(self_.value(), mine, k, theirs);
    return fmt::format(
        "cluster {} allocates {} bytes ({}) where cluster {} allocates {} bytes ({}): all clusters must make "
        "the "
        "same allocations in the same order",
        self_.value(), mine.numbers[0], text_of_placement(mine), k, theirs.numbers[0],
        text_of_placement(theirs));
  }
  return "all clusters agree";
}

}  // namespace braid::dsm
