// Barriers of the machine: the compute nodes of a cluster gather first, the last of them starts the cluster's
// release, and when that is complete the cluster arrives at the barrier's root (barrier % clusters), which
// lets all depart when all have arrived.
//
// Rules BR-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "dsm/engine/engine.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/pages.h"

namespace braid::dsm {

class Barriers {
 public:
  Barriers(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages);

  // The node waits, at least until the engine has looked whether it was the last.
  void arrive(std::uint16_t node, BarrierId barrier);
  // The release of this cluster's last arrival is complete.
  void released(BarrierId barrier);

  // Messages, also this cluster's to itself. False: no engine sends that now; nothing was changed.
  [[nodiscard]] bool on_arrive(ClusterId from, BarrierId barrier, std::uint32_t generation);
  [[nodiscard]] bool on_depart(ClusterId from, BarrierId barrier, std::uint32_t generation);
  // A descriptor of ours has left the outbox.
  void sent(const Header& header);

  bool quiet() const { return under_way_ == 0; }
  void check() const;

 private:
  //  kGathering --> kReleasing --> kArriving --> kArrived --> kGathering, next generation
  //           last node      release        message      departure
  enum class Stage : std::uint8_t { kGathering, kReleasing, kArriving, kArrived };

  struct Barrier {
    // What every cluster knows.
    Stage stage = Stage::kGathering;
    std::uint16_t gathered = 0;
    std::uint32_t generation = 0;  // of which this cluster gathers; the root's is the same or one ahead
    // What the root knows.
    std::uint32_t root_generation = 0;
    std::uint64_t arrived = 0;  // clusters, a bit each
  };

  bool known(BarrierId barrier) const { return barrier.value() < barriers_.size(); }
  ClusterId root(BarrierId barrier) const {
    return ClusterId(static_cast<std::uint16_t>(barrier.value() % config_.clusters));
  }

  const EngineConfig config_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  Pages& pages_;
  std::vector<Barrier> barriers_;
  std::uint32_t under_way_ = 0;  // barriers at which a node waits
};

}  // namespace braid::dsm
