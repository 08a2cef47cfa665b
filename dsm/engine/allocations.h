// Allocation of the shared heap by a single compute node of any cluster, while the others work. Cluster 0
// serves one request at a time: the new region and the homes of its pages are announced down a tree of all clusters
// (cluster_tree.h), each cluster confirms them when all below it have, and cluster 0 then answers. So a pointer to the
// region is valid wherever it is passed, and no cluster sends more messages than it has children.
//
// Rules AL-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <cstdint>
#include <optional>
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

namespace braid::dsm {

class Allocations {
 public:
  Allocations(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages);

  // The node waits at least until the engine has handled this cluster's messages to itself.
  void begin(std::uint16_t node, std::uint32_t count, Homes homes);
  // Takes the next pages; every cluster calls it at the same
  // point of the program. nullopt if there are not enough pages.
  std::optional<PageId> take(std::uint32_t count, Homes homes);
  std::uint32_t free_pages() const { return config_.pages - next_; }

  // Messages, also this cluster's to itself. False: the message is invalid now; nothing was changed.
  [[nodiscard]] bool on_request(ClusterId from, const Header& header, ByteView homes);
  [[nodiscard]] bool on_region(ClusterId from, const Header& header, ByteView homes);
  [[nodiscard]] bool on_region_known(ClusterId from, PageId first);
  [[nodiscard]] bool on_result(ClusterId from, const Header& header);

  // A queued descriptor becomes a message: writes the payload, returns its length.
  std::size_t write(ClusterId to, const Header& header, MutableBytes payload);

  void check() const;
  void describe(StateSink& sink) const;

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  static constexpr ClusterId kManager{0};

  // The manager's state of a compute node of any cluster.
  struct Request {
    std::uint32_t count = 0;
    Homes homes;
    std::uint32_t next = kEnd;
    bool busy = false;  // its result is in the outbox
  };

  bool possible(std::uint32_t count, Homes homes) const;
  ClusterId home_of(PageId first, std::uint32_t count, Homes homes, std::uint32_t i) const;
  bool can_place(PageId first, std::uint32_t count, Homes homes) const;
  void place(PageId first, std::uint32_t count, Homes homes);
  void serve_next();
  void announce(PageId first, std::uint32_t count, Homes homes);
  void confirm();
  void answer();

  const EngineConfig config_;
  const ClusterId self_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  Pages& pages_;
  const ClusterTree tree_;
  std::uint32_t next_ = 0;  // the first free page
  // The last region that this cluster knows, and which of its children have not confirmed it, a bit each.
  std::uint32_t region_ = 0;
  Homes homes_;
  std::uint64_t unknowing_ = 0;
  // Used by the manager only.
  std::vector<Request> requests_;  // by cluster and compute node
  std::uint32_t first_ = kEnd;     // the one that is served; the others follow in their order of arrival
  std::uint32_t last_ = kEnd;
};

}  // namespace braid::dsm
