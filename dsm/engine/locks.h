// Locks of the machine. A lock is a token, which one cluster has at a time. The cluster passes it among its compute nodes
// without messages and without a flush, because hardware keeps them coherent. The clusters that want it form a chain in
// the order of their requests: the lock's manager (lock % clusters) knows its end, and tells that cluster by a recall
// which one is next. After a release the token goes from cluster to cluster, past the manager.
//
// A recalled token may stay for a lease: until the next cluster has answered a probe, so for about as long as handing
// the token over takes, or until `lease_uses`. While nodes keep locking, further probes follow, at most `lease_rounds` in
// all. So nodes that lock again soon share the cost of a hand-over. With `lease_time` a token that this cluster asked for
// again soon after it had left may stay until that time is over (LK-15).
//
// Rules LK-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "dsm/engine/cluster_sets.h"
#include "dsm/engine/lock_words.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/object_names.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/pages.h"
#include "dsm/engine/sparse_table.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class Locks {
 public:
  Locks(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages, LockWords& words,
        const ObjectAddresses& addresses);

  void set_time(Instant now) { time_ = now; }
  // True if the node has it now; otherwise the node waits.
  bool lock(std::uint16_t node, LockId lock);
  void unlock(std::uint16_t node, LockId lock);
  // The same after a release (EngineConfig::release_at_unlock): the node waits, until released_for_unlock() frees the lock.
  void release_and_unlock(std::uint16_t node, LockId lock);
  void released_for_unlock(std::uint16_t node);
  // Takes the lock if no node has it or waits for it. True if that is decided now; otherwise the node waits for the answer of
  // another cluster. Its result is 1 if it has the lock, otherwise 0.
  bool try_lock(std::uint16_t node, LockId lock);
  bool held_by(LockId lock, std::uint16_t node) const { return now(lock).holder == node; }
  bool here(LockId lock) const;
  // The release that the token waited for is complete: the token leaves.
  void released(LockId lock);

  // Messages, also this cluster's to itself. False: the message is invalid now; nothing was changed.
  [[nodiscard]] bool on_request(ClusterId from, LockId lock, bool tries);
  [[nodiscard]] bool on_recall(ClusterId from, LockId lock, std::uint32_t next, bool tries);
  [[nodiscard]] bool on_busy(ClusterId from, LockId lock);
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
  static constexpr std::uint16_t kNobody = LockWords::kNobody;
  // A round of a lease takes as long as a hand-over. So it pays if nodes of the cluster get the lock so often in it; ...
  static constexpr std::uint32_t kUsefulLease = 2;
  // ... after leases that did not pay, 1, 3, 7 and then so many stays have none; of a missed token 1 and then so many.
  static constexpr int kMaxSkippedLeases = 15;
  static constexpr int kMaxSkippedLeasesOfMissed = 3;
  // LK-15: a token is missed if the cluster asks for it while it is among the last so many that it has given away.
  static constexpr std::size_t kLastGiven = 2;

  //  kElsewhere --> kWanted --> kAsked --> kHere --> kLeaving --> kElsewhere
  //               request       grant      recall     release
  //               queued, sent             (lease)    complete
  enum class Token : std::uint8_t { kElsewhere, kWanted, kAsked, kHere, kLeaving };

  // May the recalled token stay? Once in each stay in a cluster.
  enum class Lease : std::uint8_t { kUnused, kRunning, kOver };

  // This cluster's state of a lock. While its word is open that has `holder`, `unused` and `uses`.
  struct Local {
    Token token = Token::kElsewhere;
    Lease lease = Lease::kUnused;
    bool unused = true;             // no node has freed the lock since the token came
    bool missed = false;            // LK-15: asked for again soon after it had left
    std::uint8_t skips = 0;         // stays that have no lease, from now on
    std::uint8_t skipped_last = 0;  // the number after the last lease that nobody used
    std::uint8_t rounds = 0;        // of the lease, with the one that runs
    std::uint16_t next =
        kNobody;  // the cluster that gets the token next, once recalled; may be known before it comes
    std::uint16_t probed = kNobody;  // the cluster that has not answered a probe
    std::uint16_t holder = kNobody;  // compute node
    std::uint16_t user = kNobody;    // the last one that had it, as far as the engine knows (LK-12)
    std::uint16_t first = kNobody;   // compute nodes that wait, FIFO through ComputeNode::next
    std::uint16_t last = kNobody;
    std::uint32_t uses = 0;         // times that nodes got the lock since the token is here and recalled
    std::uint32_t round_began = 0;  // `uses` then
    Instant came;                   // a missed token
    bool operator==(const Local&) const = default;

    bool is_requested() const { return token == Token::kWanted || token == Token::kAsked; }
    // Requested, and no node waits for it any more.
    bool is_idle() const { return is_requested() && first == kNobody; }
  };

  // The manager's state of a lock.
  struct Chain {
    ClusterSet recalls;      // the clusters whose recall has not left
    std::uint16_t last = 0;  // the end
    bool operator==(const Chain&) const = default;
  };

  bool timed() const { return config_.lease_time > Duration{}; }
  std::uint32_t numbered() const { return static_cast<std::uint32_t>(local_.size()); }
  bool known(LockId lock) const { return is_object(config_, lock.value(), numbered()); }
  ClusterId manager(LockId lock) const { return keeper_of(config_, lock.value(), numbered()); }
  // LK-1: the first cluster of every chain is its manager's.
  Local initial(LockId lock) const {
    Local l;
    if (manager(lock) == self_) l.token = Token::kHere;
    return l;
  }
  Chain initial_chain() const { return {.recalls = {}, .last = self_.value()}; }
  // nullptr: it is in its initial state, or there is no such lock.
  const Local* find(LockId lock) const {
    return lock.value() < numbered() ? &local_[lock.value()] : at_addresses_.find(lock.value());
  }
  // With what its word tells, if that is open.
  Local now(LockId lock) const;
  Local with_word(Local l, const LockWords::OpenLock& word) const;
  // LK-12. Comes before everything else that is done with the lock.
  void close(LockId lock);
  // Opens the lock if nothing but its holder changes in it until a message comes, or a node that must wait.
  void open(LockId lock, const Local& l);
  bool may_open(const Local& l) const;
  // Valid until it is called for another lock.
  Local& local(LockId lock);
  Chain& chain(LockId lock);
  // Nothing is kept of a lock at an address that is in its initial state.
  void tidy(LockId lock);
  void tidy_chain(LockId lock);
  std::string name(LockId lock) const { return name_of_object(addresses_, "lock", lock.value(), numbered()); }

  std::uint32_t most_uses(const Local& l) const;
  std::uint8_t usual_rounds() const;
  std::uint8_t most_rounds(const Local& l) const;
  bool has_time(const Local& l) const;
  bool user_waits_for_another_lock(const Local& l, LockId lock) const;
  bool user_will_go_on(const Local& l, LockId lock) const;
  void enqueue(Local& l, std::uint16_t node, LockId lock);
  void give_to(Local& l, std::uint16_t node);
  void pass_on(Local& l);
  void answer_tries(Local& l);
  void ask(LockId lock, bool tries);
  bool may_probe(const Local& l) const;
  bool takes_lease(Local& l);
  bool takes_round(const Local& l, LockId lock) const;
  void begin_round(LockId lock);
  void end_lease(Local& l);
  void give_up(LockId lock);
  void move(Local& l, Token to);
  void describe_local(StateSink& sink, const Local& l) const;
  void describe_chain(StateSink& sink, const Chain& c) const;
  void check_local(const Local& l) const;

  const EngineConfig config_;
  const ClusterId self_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  Pages& pages_;
  LockWords& words_;
  const ObjectAddresses& addresses_;
  std::vector<Local> local_;  // of numbered locks
  std::vector<Chain> chains_;
  SparseTable<Local> at_addresses_;
  SparseTable<Chain> chains_at_addresses_;
  ClusterSets sets_;
  std::vector<std::uint32_t> promised_;                 // by cluster: recalled tokens here that go there next
  std::vector<std::uint32_t> unanswered_;               // by cluster: probes
  std::array<std::uint32_t, kLastGiven> last_given_{};  // locks and 1, in turn; 0: none
  std::size_t given_ = 0;                               // the place of the oldest
  Instant time_;
  std::uint32_t moving_ = 0;  // locks whose token is requested or leaving
  std::uint32_t idle_ = 0;    // requests that no node waits for
  std::uint32_t probes_ = 0;  // unanswered
};

}  // namespace braid::dsm
