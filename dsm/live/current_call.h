// The collective call that this cluster makes now (collective_calls.h): to which clusters
// it must still be sent, which have made it too, and which have left the machine.
//
// Pure. Owned by the holder of the combiner lock.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/cluster_bits.h"
#include "base/ids.h"
#include "dsm/live/collective_calls.h"

namespace braid::dsm {

class CurrentCall {
 public:
  // `clusters`: of the machine.
  CurrentCall(ClusterId self, unsigned clusters);

  // The call is in progress until end().
  void begin(const CollectiveCall& call);
  void end() { in_progress_ = false; }
  bool in_progress() const { return in_progress_; }
  CallKind kind() const { return message_.call.kind; }

  // Every other cluster has made the call or has left, or one has made another call.
  bool complete() const;
  bool disagreement() const { return calls_.disagreement(); }
  // Describes the call of the first cluster that disagrees, and this one's. Allocates.
  std::string explain() const { return calls_.explain(); }
  // The numbers of the clusters that have not made it, each after a blank: " 1 3". Allocates.
  std::string missing() const;

  // --- Messages.

  // False: the message has another form or an unexpected sequence number; nothing was changed.
  [[nodiscard]] bool on_message(ClusterId from, ByteView body) { return calls_.on_message(from, body); }
  // The clusters to which message() must still be sent.
  const ClusterBits& unsent() const { return unsent_; }
  const CallMessage& message() const { return message_; }
  void sent(ClusterId to) { unsent_.remove(to); }

  // --- Clusters that leave.

  // This cluster calls finish(): from now on a cluster that has called it too may leave.
  void allow_leaving() { leaving_allowed_ = true; }
  // The connection to `peer` is gone, and everything that it sent before has been handled. kLost: its process has
  // died. kDisagreed: it ended because the clusters disagree, as explain() says.
  enum class Loss : std::uint8_t { kLeft, kDisagreed, kLost };
  [[nodiscard]] Loss on_disconnected(ClusterId peer);
  bool left(ClusterId peer) const { return left_.contains(peer); }

 private:
  // Calls use(cluster) for each other cluster that has not left.
  template <class Use>
  void for_each_other(Use&& use) const {
    for (std::uint16_t c = 0; c < clusters_; ++c)
      if (ClusterId(c) != self_ && !left_.contains(ClusterId(c))) use(ClusterId(c));
  }

  const ClusterId self_;
  const unsigned clusters_;
  CollectiveCalls calls_;
  CallMessage message_;
  bool in_progress_ = false;
  bool leaving_allowed_ = false;
  ClusterBits unsent_;
  ClusterBits left_;
};

}  // namespace braid::dsm
