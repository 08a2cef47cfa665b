// The steps of a program that all clusters take together: joining, each allocation, each parallel(),
// finishing, and the goodbye. A cluster tells all others which step it takes, and goes on when all have told
// the same.
//
// So programs that run out of step are found at the first difference, with both sides named, instead of
// computing on different data or waiting for ever.
//
// Pure: messages in, messages out. Belongs to whoever holds the combiner lock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/program/step_facts.h"

namespace braid::dsm {

// As it travels, in the byte order of all the processors that we run on.
struct StepMessage {
  std::uint64_t sequence = 0;  // 1 for the first step
  StepFacts facts;
};
static_assert(std::is_trivially_copyable_v<StepMessage>);

class Steps {
 public:
  Steps(ClusterId self, unsigned clusters);

  // This cluster takes its next step; the one before is complete. Send the message to all others.
  StepMessage begin(const StepFacts& facts);
  // False: not a message that Steps writes, or one out of turn.
  [[nodiscard]] bool on_message(ClusterId from, ByteView message);

  // All others have taken this cluster's current step as well, and agree on what it is.
  bool complete() const;
  bool reached(ClusterId peer) const;
  bool disagreement() const;
  // What the first cluster that disagrees does, and what this one does, for the person who can mend it.
  // Allocates.
  std::string explain() const;
  // `peer` has taken a step of this kind as its latest or the one before.
  bool has_taken(ClusterId peer, Step step) const;

 private:
  // A peer is at most one step ahead, because its next one needs this cluster's; so two places are enough,
  // whatever order messages arrive in.
  using Places = std::array<StepMessage, 2>;
  const StepMessage& place(ClusterId peer) const { return heard_[peer.value()][current_.sequence & 1]; }

  ClusterId self_;
  StepMessage current_;
  std::vector<Places> heard_;  // by cluster
};

}  // namespace braid::dsm
