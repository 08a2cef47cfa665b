// The page protocol and the synchronisation of one cluster, as a value: release consistency over pages of 1 to 64 KiB
// with a home per page, many writers by twin and byte-granular diff, and invalidation of the other copies
// when a writer releases (eager) or where a node acquires (lazy); locks whose token stays in a cluster while a node there wants it; barriers that
// gather in the cluster first and then over a tree, and reduce values; atomic words, flags,
// semaphores and condition variables served at a home; allocation by any compute node.
//
// It only decides. Inputs are faults, lock calls, messages and the time; output messages come from poll_transmit();
// It has no thread, clock or socket, and allocates only in its constructor.
// All calls but those of open locks are serialised by the caller (live: the cluster's combiner lock).
//
// Messages may arrive in any order. The service below guarantees that each arrives once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/cluster_bits.h"
#include "base/ids.h"
#include "base/time.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class StateSink;

class Engine {
 public:
  Engine(const EngineConfig& config, PageMemory& memory);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Sets the home of pages [first, first + count). Before the pages' first use, the same calls in every
  // cluster. A page's home starts with the only copy (zeroes), writable there and inaccessible elsewhere; the
  // call protects accordingly. Pages never given a home are homed cyclically, page % clusters, and opened at
  // their home by the first fault there. A request that arrives from a cluster that made the call earlier
  // waits until this one makes it.
  void set_home(PageId first, std::uint32_t count, ClusterId home);

  // Pages [first, first + count), not used before, are all zeros: the first cluster that accesses one
  // becomes its home. Cluster page % clusters decides which was first. Before the pages' first use, the same
  // calls in every cluster.
  void set_first_touch(PageId first, std::uint32_t count);

  // The driver's clock shows `now`. With EngineConfig::lease_time, before each on_message().
  void set_time(Instant now);

  // --- Operations of compute node `node` (0 .. compute_nodes-1 of this cluster), one at a time per node. True:
  // complete at once. False: in progress until done(node), which can change with each message or operation.

  // The node accessed `page` and lacked `wanted`. Complete when the protection allows it, or did already (a
  // sibling was faster); the node then repeats its access, and may fault again.
  [[nodiscard]] bool fault(std::uint16_t node, PageId page, Access wanted);
  // Requests those of `count` pages from `first` on that this cluster has no copy of, as far as so many may be in flight
  // (EngineConfig::fetch_ahead). Never waits.
  void prefetch(PageId first, std::uint32_t count);
  [[nodiscard]] bool lock(std::uint16_t node, LockId lock);
  // Two calls that are not serialised: `node`'s own thread makes them at any time at which the node has no operation in
  // progress. True: the same as lock() or unlock(), complete, because the lock is open (lock_words.h). False: nothing was
  // done; call lock() or unlock().
  [[nodiscard]] bool take_open_lock(std::uint16_t node, LockId lock);
  [[nodiscard]] bool free_open_lock(std::uint16_t node, LockId lock);
  // result() is 1 if the node has the lock now. It never waits until another node frees the lock, but perhaps for another
  // cluster's answer. It may fail although no node has the lock, while the token is on its way between clusters.
  [[nodiscard]] bool try_lock(std::uint16_t node, LockId lock);
  // A release. The token leaves this cluster only when what was written before has reached the
  // homes and, in the eager protocol, every other copy of it is gone. The node must hold the lock. Complete at once,
  // except with EngineConfig::release_at_unlock.
  bool unlock(std::uint16_t node, LockId lock);
  // Waits for all compute nodes of all clusters; a release and an acquire. Every node of the machine comes to
  // the same barriers in the same order.
  // `value` has the bits of the node's operand of the reduction; result() is the reduction's, and
  // reduction() kDisagreement if not all nodes called the same.
  [[nodiscard]] bool barrier(std::uint16_t node, BarrierId barrier, Reduction reduction = Reduction::kNone,
                             std::uint64_t value = 0);
  // result() is the former value of a word.
  [[nodiscard]] bool sync(std::uint16_t node, const SyncCall& call);
  // Allocates `count` pages, at least one, for this node: result() is the first one, or kNoPages.
  // Every cluster knows them and their homes when it is complete.
  [[nodiscard]] bool allocate(std::uint16_t node, std::uint32_t count, Homes homes);
  // The same as a collective call: with the same arguments in all clusters, and while no node allocates;
  // no node may use the pages before all have returned.
  std::optional<PageId> allocate_together(std::uint32_t count, Homes homes);
  // Of the node's last barrier, sync(), try_lock() or allocate(), when it is done.
  std::uint64_t result(std::uint16_t node) const;
  Reduction reduction(std::uint16_t node) const;
  bool holds(std::uint16_t node, LockId lock) const;
  // The node has no operation in progress. Becomes true in any call above or in on_message(), never in
  // poll_transmit().
  bool done(std::uint16_t node) const;

  // --- The network.

  // Handles a message of another cluster's engine. Never fails or waits: an invalid one is counted and
  // dropped, and a node may wait for it for ever: see refusal().
  void on_message(ClusterId from, ByteView message);
  // The first message that was dropped, if any. Then the network has lost or damaged a message (PG-27): no result can
  // be trusted from now on, so the driver ends the program with the reason.
  const std::optional<Refusal>& refusal() const;
  // Writes what is ready for `to` (another cluster) into `room` (at least min_room_bytes()) and returns its
  // length, at most max_message_bytes(); 0 if there is nothing; otherwise call it again. May call protect(): pages close
  // as their bytes are taken. The driver takes room in its channel first, so each message that is written is
  // also sent.
  std::size_t poll_transmit(ClusterId to, MutableBytes room);
  // The room that what is ready for `to` can use: min_room_bytes() to max_message_bytes(). With less, more messages leave.
  std::size_t room_wanted(ClusterId to) const;
  bool has_output(ClusterId to) const;
  // Clusters with output: what a driver loops over.
  const ClusterBits& output_clusters() const;

  // --- Observation.
  NodeCounts node_counts(std::uint16_t node) const;
  const ClusterCounts& counts() const;
  // As far as this cluster knows: a home elsewhere may have moved.
  ClusterId home(PageId page) const;
  std::uint32_t free_pages() const;  // that no allocation has taken
  // The access that compute nodes of this cluster have to the page now.
  Access access(PageId page) const;
  // Text for the user that tells why compute node `node` of this cluster waits, as far as this cluster knows:
  // "waits for lock 5, which compute node 3 has"; empty if it does not wait. `node` counts in the cluster,
  // the text's numbers in the machine. Allocates.
  std::string explain_wait(std::uint16_t node) const;
  // The node waits for something to do, and nobody can say for how long.
  bool waits_for_work(std::uint16_t node) const;
  // For these texts: the objects from the `first`th of those at addresses on (object_names.h) are at `address` and behind it.
  void place_objects(std::uint32_t first, std::uint64_t address);
  // The locks that `node` has: "3, 5". Allocates.
  std::string locks_of(std::uint16_t node) const;
  // Nothing in progress and nothing to send: for tests and for the end of a program.
  bool quiet() const;
  // Checks the invariants.
  void check() const;
  // Passes on all state that determines the engine's future actions, pages' bytes included (state_sink.h).
  void describe(StateSink& sink) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace braid::dsm
