// Barriers of the machine. The compute nodes of a cluster gather first; the last of them starts
// the cluster's release. When that is complete and the clusters below it in the barrier's tree
// have arrived, the cluster arrives at the one above it. The root (barrier % clusters) starts
// the departure, down the same tree (cluster_tree.h). Values of nodes are combined on the way to the root.
//
// Rules BR-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/engine/cluster_tree.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/pages.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"
#include "dsm/engine/write_notices.h"

namespace braid::dsm {

class Barriers {
 public:
  Barriers(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages,
           WriteNotices& notices);

  // The node waits at least until the engine has handled what follows from its arrival.
  void arrive(std::uint16_t node, BarrierId barrier, Reduction reduction, std::uint64_t value);
  // The release of this cluster's last arrival is complete.
  void released(BarrierId barrier);

  // False: the message is invalid now; nothing was changed.
  [[nodiscard]] bool on_arrive(ClusterId from, const Header& header, ByteView value);
  [[nodiscard]] bool on_depart(ClusterId from, const Header& header, ByteView value);
  // A queued descriptor becomes a message: writes the payload, returns its length.
  std::size_t write(const Header& header, MutableBytes payload);

  // Which nodes and clusters are missing, as far as this cluster knows: text for a user. Allocates.
  std::string explain(BarrierId barrier) const;

  bool quiet() const { return in_progress_ == 0; }
  void check() const;
  void describe(StateSink& sink) const;

 private:
  //  kGathering --> kReleasing --> kCollecting --> kArriving --> kArrived --> kGathering, next generation
  //           last node      release        last child     message     departure
  // The root departs instead of arriving.
  enum class Stage : std::uint8_t { kGathering, kReleasing, kCollecting, kArriving, kArrived };

  struct Barrier {
    Stage stage = Stage::kGathering;
    // The reduction that all called: nodes of this cluster, and the clusters below it.
    Reduction reduction = Reduction::kNone;
    std::uint16_t gathered = 0;
    std::uint32_t generation = 0;
    std::uint64_t arrived = 0;  // clusters below this one, a bit each, by their index among its children
    std::uint64_t value = 0;    // of this cluster and those below it, then of the machine
  };

  bool known(BarrierId barrier) const { return barrier.value() < barriers_.size(); }
  ClusterId root(BarrierId barrier) const { return keeper(config_, barrier.value()); }
  std::uint32_t children(BarrierId barrier) const { return tree_.children(root(barrier)); }
  std::uint64_t& child_value(BarrierId barrier, std::uint32_t which) {
    return child_values_[std::size_t{barrier.value()} * tree_.fan_out() + which];
  }
  void agree(BarrierId barrier, Reduction called);
  void arrive_at_parent(BarrierId barrier);
  void depart(BarrierId barrier);

  const EngineConfig config_;
  const ClusterTree tree_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  Pages& pages_;
  WriteNotices& notices_;
  std::vector<Barrier> barriers_;
  std::vector<std::uint64_t> child_values_;
  std::uint32_t in_progress_ = 0;  // barriers at which a node of this cluster waits
};

}  // namespace braid::dsm
