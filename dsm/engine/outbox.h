// The messages that an engine has decided to send and has not written yet: a FIFO of small descriptors
// per destination. The bytes (a page, a diff) are taken when the driver has room for them. So a waiting
// message costs 16 bytes, not 4 KiB, and a reply has the page's bytes of the time when it leaves. The queues
// are lists in one pool: memory follows what waits, whatever the number of destinations.
// The queue to the own cluster holds the messages of a
// lock's manager or a barrier's root to its own cluster;
// the engine delivers them before it returns to its caller.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/cluster_bits.h"
#include "base/ids.h"
#include "base/zeroed_table.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// The number of a descriptor of a page's request or reply that does not continue the run before it (PG-28); others have
// zero. The message's number is set when it leaves.
inline constexpr std::uint32_t kBeginsRun = 1;

class Outbox {
 public:
  explicit Outbox(const EngineConfig& config)
      : capacity_(capacity(config)),
        items_(config.clusters * capacity_ + 1),
        queues_(config.clusters),
        clusters_(config.clusters),
        self_(config.cluster) {}

  // PG-19. The most descriptors that one destination's queue can hold, N clusters, C nodes each, R = C * (1 +
  // F), W the flush window:
  //   page requests       R     a node waits for one page at a time, and F more are fetched ahead of it
  //   page replies        R     on_page_request refuses more
  //   diffs               W     pages of this cluster in progress
  //   diffs done          W     on_diff refuses more
  //   invalidations     N*W     rounds at this home, each a page in progress at some cluster
  //   their answers     N*W     the same at the other home; on_invalidate refuses more
  //   lock requests       T     T = 2*C + S, the tokens that a cluster waits for; S: those that no node waits for (LK-10)
  //   lock grants         T     on_recall refuses more
  //   busy                C     on_recall refuses more
  //   recalls         L + N*T   one per numbered lock that the manager's cluster keeps, and one per request for a lock at an
  //                             address: on_request refuses more
  //   probes              C     a token for which there is no room has no lease
  //   their answers       C     on_probe refuses more
  //   barriers            1 + B   a cluster waits at one barrier; one departure for each
  //   calls               C     a node has one at a time: a variable's, or an allocation
  //   their answers      3*C     a node's slot is busy until they have left; a wait for a condition has two
  //   regions             2     one at a time, and that it is known
  //   forwarded         N*R     the former home keeps no more of each cluster's requests
  static std::size_t capacity(const EngineConfig& c) {
    const std::size_t n = c.clusters;
    const std::size_t kept_locks = (c.locks + n - 1) / n;
    return 7 * std::size_t{c.compute_nodes} + 2 * max_tokens(c) + 2 * std::size_t{c.flush_window} +
           2 * n * std::size_t{c.flush_window} + kept_locks + max_recalls(c) + c.barriers + 1 + 2 +
           (n + 2) * max_requests(c);
  }
  // The most locks' tokens that a cluster can have requested and not received: its nodes wait for one each, or have just
  // given up on one each, and so many others were given up before (LK-10).
  static std::size_t max_tokens(const EngineConfig& c) {
    return 2 * std::size_t{c.compute_nodes} + kMaxIdleRequests;
  }
  // The most recalls for locks at addresses that can wait for one cluster.
  static std::size_t max_recalls(const EngineConfig& c) {
    return c.addresses == 0 ? 0 : c.clusters * max_tokens(c);
  }
  // A node does not ask for the token of a lock that it only tries while its cluster has so many requests that no node waits
  // for. Each is for a lock that another cluster held, and ends when that frees it.
  static constexpr std::size_t kMaxIdleRequests = 16;
  // The most pages that a cluster can have requested and not received.
  static std::size_t max_requests(const EngineConfig& c) {
    return std::size_t{c.compute_nodes} * (1 + std::size_t{c.most_ahead()});
  }

  void push(ClusterId to, Header op) {
    Queue& queue = queues_[to.value()];
    const std::uint32_t item = take_item(to, queue, op);
    items_[item].next = kEnd;
    (queue.last == kEnd ? queue.first : items_[queue.last].next) = item;
    queue.last = item;
  }
  bool empty(ClusterId to) const { return queues_[to.value()].first == kEnd; }
  const Header& front(ClusterId to) const { return items_[queues_[to.value()].first].op; }  // not empty
  Header pop(ClusterId to) {
    Queue& queue = queues_[to.value()];
    const std::uint32_t item = queue.first;
    const Header op = items_[item].op;
    queue.first = items_[item].next;
    items_[item].next = free_;
    free_ = item;
    --queue.size;
    --queue.pending[static_cast<std::size_t>(op.kind)];
    if (queue.first == kEnd) {
      queue.last = kEnd;
      clusters_.remove(to);
    }
    return op;
  }
  // Puts back what pop() has just returned and there was no room for.
  void put_back(ClusterId to, Header op) {
    Queue& queue = queues_[to.value()];
    const std::uint32_t item = take_item(to, queue, op);
    items_[item].next = queue.first;
    queue.first = item;
    if (queue.last == kEnd) queue.last = item;
  }
  // The number of descriptors of one kind that wait for `to`.
  std::uint32_t pending(ClusterId to, Kind kind) const {
    return queues_[to.value()].pending[static_cast<std::size_t>(kind)];
  }
  // The other clusters for which there is output.
  const ClusterBits& clusters() const { return clusters_; }

  void describe(StateSink& sink) const {
    for (const Queue& queue : queues_) {
      sink.value(queue.size);
      for (std::uint32_t item = queue.first; item != kEnd; item = items_[item].next) {
        const Header& op = items_[item].op;
        sink.values(op.kind, op.format, op.id);
        // Its version is set when it leaves.
        if (op.kind == Kind::kPageReply)
          sink.value(op.format == 0 ? op.number : 0);
        else if (has_version(op.kind))
          sink.version(PageId(op.id), op.number);
        else
          sink.value(op.number);
      }
    }
  }
  void check() const {
    for (std::uint16_t to = 0; to < queues_.size(); ++to) {
      const Queue& queue = queues_[to];
      std::uint32_t size = 0, last = kEnd;
      for (std::uint32_t item = queue.first; item != kEnd; item = items_[item].next, ++size) last = item;
      CHECK_EQ(size, queue.size);
      CHECK_EQ(last, queue.last);
      CHECK_LE(queue.size, capacity_);
      CHECK_EQ(clusters_.contains(ClusterId(to)), size != 0 && to != self_.value());
    }
  }

 private:
  static constexpr std::uint32_t kEnd = 0;  // no item has this number

  struct Item {
    Header op;
    std::uint32_t next;
  };
  struct Queue {
    std::uint32_t first = kEnd;
    std::uint32_t last = kEnd;
    std::uint32_t size = 0;
    std::array<std::uint32_t, kKinds> pending{};  // by kind
  };

  // One that is not in a list, with the descriptor, which is counted.
  std::uint32_t take_item(ClusterId to, Queue& queue, const Header& op) {
    CHECK_LT(queue.size, capacity_);
    ++queue.size;
    ++queue.pending[static_cast<std::size_t>(op.kind)];
    if (to != self_) clusters_.add(to);
    const std::uint32_t item = free_ != kEnd ? free_ : ++used_;
    if (item == free_) free_ = items_[item].next;
    items_[item].op = op;
    return item;
  }

  const std::size_t capacity_;  // of each queue
  ZeroedTable<Item> items_;     // by number, from 1 on
  std::uint32_t used_ = 0;      // the highest number that has been in use
  std::uint32_t free_ = kEnd;   // the first of a list
  std::vector<Queue> queues_;   // by destination
  ClusterBits clusters_;
  ClusterId self_;
};

}  // namespace braid::dsm
