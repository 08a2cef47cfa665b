// Locks of the machine. A lock is a token: its manager (lock % clusters) knows which cluster has it and
// which wait. The cluster that has it passes it among its compute nodes without messages and without a
// flush, because hardware keeps them coherent. The token leaves when another cluster waits, after a release.
//
// Rules LK-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/pages.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class Locks {
 public:
  Locks(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages);

  // True if the node has it now; otherwise the node waits.
  bool lock(std::uint16_t node, LockId lock);
  void unlock(std::uint16_t node, LockId lock);
  bool held_by(LockId lock, std::uint16_t node) const {
    return known(lock) && local_[lock.value()].holder == node;
  }
  bool here(LockId lock) const { return local_[lock.value()].token == Token::kHere; }
  // The release that the token waited for is complete: the token leaves.
  void released(LockId lock);

  // Messages, also this cluster's to itself. False: the message is invalid now; nothing was changed.
  [[nodiscard]] bool on_request(ClusterId from, LockId lock);
  [[nodiscard]] bool on_grant(ClusterId from, LockId lock, bool recalled);
  [[nodiscard]] bool on_recall(ClusterId from, LockId lock);
  [[nodiscard]] bool on_return(ClusterId from, LockId lock);
  // A queued descriptor has left the outbox.
  void sent(ClusterId to, const Header& header);

  // Where the lock is, as far as this cluster knows, and which locks a node has, for a user. Both allocate.
  std::string explain(LockId lock) const;
  std::string locks_of(std::uint16_t node) const;

  bool quiet() const { return moving_ == 0; }
  void check() const;
  void describe(StateSink& sink) const;

 private:
  static constexpr std::uint16_t kNobody = 0xffff;
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  //  kElsewhere --> kWanted --> kAsked --> kHere --> kLeaving --> kElsewhere
  //               request       grant      recall     release
  //               queued, sent                        complete
  enum class Token : std::uint8_t { kElsewhere, kWanted, kAsked, kHere, kLeaving };

  // Each cluster's state of a lock.
  struct Local {
    Token token = Token::kElsewhere;
    bool recalled = false;           // another cluster waits; may be known before the token comes (LK-4)
    std::uint16_t holder = kNobody;  // compute node
    std::uint16_t first = kNobody;   // compute nodes that wait, FIFO through ComputeNode::next
    std::uint16_t last = kNobody;
    std::uint32_t handoffs = 0;  // between compute nodes since the recall
  };

  // The state in the manager's cluster.
  struct Managed {
    std::uint16_t holder = kNobody;  // cluster
    enum class Recall : std::uint8_t { kNone, kQueued, kSent } recall = Recall::kNone;
    std::uint32_t first = kEnd;  // clusters that wait, FIFO in waiting_
    std::uint32_t last = kEnd;
  };

  struct WaitingCluster {
    std::uint16_t cluster = kNobody;
    std::uint32_t next = kEnd;
  };

  bool known(LockId lock) const { return lock.value() < local_.size(); }
  ClusterId manager(LockId lock) const { return keeper(config_, lock.value()); }
  void pass_on(Local& l);
  void ask(LockId lock);
  void give_up(LockId lock);
  void grant(LockId lock, std::uint16_t cluster);
  void recall(LockId lock);
  void move(Local& l, Token to);

  const EngineConfig config_;
  const ClusterId self_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  Pages& pages_;
  std::vector<Local> local_;
  std::vector<Managed> managed_;         // by lock; used where this cluster is the manager
  std::vector<WaitingCluster> waiting_;  // pool; the free ones are chained from free_
  std::uint32_t free_ = kEnd;
  std::vector<std::uint32_t> asked_by_;  // per cluster: requests whose grant has not left
  std::uint32_t moving_ = 0;             // locks whose token is requested or leaving
};

}  // namespace braid::dsm
