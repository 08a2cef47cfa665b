// The step that this cluster takes with all others at the moment (steps.h): to which clusters it must still be
// sent, which have reached it, and which have left the machine for good.
//
// Pure. Belongs to whoever holds the combiner lock.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/live/steps.h"

namespace braid::dsm {

class CurrentStep {
 public:
  // `clusters`: of the machine, 1 .. 64.
  CurrentStep(ClusterId self, unsigned clusters);

  // The step is in progress until end().
  void begin(const StepFacts& facts);
  void end() { in_progress_ = false; }
  bool in_progress() const { return in_progress_; }
  Step kind() const { return message_.facts.step; }

  // Every other cluster has reached the step or has left; or one disagrees about what it is.
  bool complete() const;
  bool disagreement() const { return steps_.disagreement(); }
  // What the first cluster that disagrees does, and what this one does. Allocates.
  std::string explain() const { return steps_.explain(); }
  // The numbers of the clusters that have not reached it, each behind a blank: " 1 3". Allocates.
  std::string missing() const;

  // --- Messages.

  // False: not a message that a CurrentStep wants sent, or one out of turn.
  [[nodiscard]] bool on_message(ClusterId from, ByteView body) { return steps_.on_message(from, body); }
  // The clusters that must still be sent message(), a bit each.
  std::uint64_t unsent() const { return unsent_; }
  const StepMessage& message() const { return message_; }
  void sent(ClusterId to) { unsent_ &= ~bit(to); }

  // --- Clusters that leave.

  // This cluster calls finish(): from now on one that has called it too may leave.
  void allow_leaving() { leaving_allowed_ = true; }
  // The connection to `peer` is gone, and everything that it sent before has been taken. kLost: it must not have
  // gone. kDisagreed: it left because the clusters disagree, which explain() tells.
  enum class Loss : std::uint8_t { kLeft, kDisagreed, kLost };
  [[nodiscard]] Loss on_disconnected(ClusterId peer);
  bool left(ClusterId peer) const { return (left_ & bit(peer)) != 0; }

 private:
  static std::uint64_t bit(ClusterId cluster) { return std::uint64_t{1} << cluster.value(); }

  const ClusterId self_;
  const std::uint64_t others_;  // a bit for each other cluster
  Steps steps_;
  StepMessage message_;
  bool in_progress_ = false;
  bool leaving_allowed_ = false;
  std::uint64_t unsent_ = 0;
  std::uint64_t left_ = 0;
};

}  // namespace braid::dsm
