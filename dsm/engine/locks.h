// Locks of the machine. A lock is a token, which one cluster has at a time. The cluster passes it among its compute nodes
// without messages and without a flush, because hardware keeps them coherent. The clusters that want it form a chain in
// the order of their requests: the lock's manager (lock % clusters) knows its end, and tells that cluster by a recall
// which one is next. After a release the token goes from cluster to cluster, past the manager.
//
// A recalled token may stay for a lease: until the next cluster has answered a probe, so for about as long as handing
// the token over takes, or until `lease_uses`. So nodes that lock again soon share the cost of a hand-over.
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
  [[nodiscard]] bool on_recall(ClusterId from, LockId lock, std::uint32_t next);
  [[nodiscard]] bool on_grant(ClusterId from, LockId lock);
  [[nodiscard]] bool on_probe(ClusterId from, LockId lock);
  [[nodiscard]] bool on_probe_reply(ClusterId from, LockId lock);
  // A queued descriptor has left the outbox.
  void sent(ClusterId to, const Header& header);

  // Where the lock is, as far as this cluster knows, and which locks a node has, for a user. Both allocate.
  std::string explain(LockId lock) const;
  std::string locks_of(std::uint16_t node) const;

  bool quiet() const { return moving_ == 0 && probes_ == 0; }
  void check() const;
  void describe(StateSink& sink) const;

 private:
  static constexpr std::uint16_t kNobody = 0xffff;
  // A lease makes a stay and its hand-over take about twice as long. So it pays if nodes of the cluster get the lock so often
  // in it, beside the first time; ...
  static constexpr std::uint32_t kUsefulLease = 2;
  // ... after leases that did not pay, 1, 3, 7 and then so many stays have none.
  static constexpr std::uint8_t kMaxSkippedLeases = 15;

  //  kElsewhere --> kWanted --> kAsked --> kHere --> kLeaving --> kElsewhere
  //               request       grant      recall     release
  //               queued, sent             (lease)    complete
  enum class Token : std::uint8_t { kElsewhere, kWanted, kAsked, kHere, kLeaving };

  // May the recalled token stay? Once in each stay in a cluster.
  enum class Lease : std::uint8_t { kUnused, kRunning, kOver };

  // This cluster's state of a lock.
  struct Local {
    Token token = Token::kElsewhere;
    Lease lease = Lease::kUnused;
    bool unused = true;             // no node has freed the lock since the token came
    std::uint8_t skips = 0;         // stays that have no lease, from now on
    std::uint8_t skipped_last = 0;  // the number after the last lease that nobody used
    std::uint16_t next =
        kNobody;  // the cluster that gets the token next, once recalled; may be known before it comes
    std::uint16_t probed = kNobody;  // the cluster that has not answered a probe
    std::uint16_t holder = kNobody;  // compute node
    std::uint16_t first = kNobody;   // compute nodes that wait, FIFO through ComputeNode::next
    std::uint16_t last = kNobody;
    std::uint32_t uses = 0;         // times that nodes got the lock since the token is here and recalled
    std::uint32_t lease_began = 0;  // `uses` then
  };

  bool known(LockId lock) const { return lock.value() < local_.size(); }
  ClusterId manager(LockId lock) const { return keeper(config_, lock.value()); }
  std::uint32_t most_uses(const Local& l) const;
  void pass_on(Local& l);
  void ask(LockId lock);
  bool takes_lease(Local& l);
  void begin_lease(LockId lock);
  void end_lease(Local& l);
  void give_up(LockId lock);
  void move(Local& l, Token to);

  const EngineConfig config_;
  const ClusterId self_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  Pages& pages_;
  std::vector<Local> local_;
  // By lock, where this cluster is the manager: the end of its chain, and the clusters whose recall has not left, a bit each.
  std::vector<std::uint16_t> last_;
  std::vector<std::uint64_t> recalls_;
  std::vector<std::uint32_t> promised_;    // by cluster: recalled tokens here that go there next
  std::vector<std::uint32_t> unanswered_;  // by cluster: probes
  std::uint32_t moving_ = 0;               // locks whose token is requested or leaving
  std::uint32_t probes_ = 0;               // unanswered
};

}  // namespace braid::dsm
