// A small machine of production engines for the exhaustive explorer (engine_explorer.cpp): at any moment it
// can list the possible events, carry out one of them, check the result, and give a digest of its state.
//
// Events: a compute node does its next operation (any that its program allows), an engine's next
// message leaves, any message in flight arrives. There are no fixed programs: in every phase each node does
// `operations` operations of any kind: read a page, write a page, take the lock, free it. Then all arrive at
// a barrier.
//
// Invariants. Every page has a byte per node that only this node writes, and a byte that the lock guards;
// all of them lie side by side. A write counts its own byte up, and the guarded one if the node has the lock.
//   - A read finds its node's own byte as the node wrote it last; with the lock, the guarded byte as it was
//     written last by anybody; and every other node's byte no older than what happened before the reader's
//     last acquire, and no newer than what was written.
//   - With WorldBounds::fairness: from the moment when the lock's manager has a cluster's request, every other cluster has at
//     most one stay of the token before it, and while a recall is known, at most 1 + max(handoffs, lease_uses) uses in it.
//     No cluster sends more than lease_rounds probes in a stay.
//   - With WorldBounds::tries node 0 locks, and may end while it has the lock, and the others only try. So if a try waited until
//     the lock is freed, there would be a state from which the end cannot be reached.
//   - With WorldBounds::release_at_unlock an unlock ends when every node reads what was written before it, with the lazy protocol
//     every node that acquires after it.
//   - The lock has one holder. No node passes a barrier before all have arrived.
//   - No engine refuses another one's message; every engine's invariants hold after every event.
//   - When nothing can happen any more all programs have ended, all engines are quiet, and every cluster
//     reads what was written last.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsm/engine/engine.h"
#include "dsm/engine/messages.h"

namespace braid::dsm {

struct WorldBounds {
  std::uint16_t clusters = 2;
  std::uint16_t nodes = 1;  // per cluster
  std::uint32_t pages = 1;
  Protocol protocol = Protocol::kEager;
  std::uint32_t operations = 2;  // of each node in each phase
  std::uint32_t phases = 1;      // each ends with a barrier
  std::uint32_t window = 0;      // messages in flight from one cluster to another; 0: no bound
  std::uint32_t lock = 0;        // the lock that is used: managed by cluster lock % clusters
  std::uint32_t flush_window = 2;
  std::uint32_t twins = 2;
  std::uint32_t handoffs = 1;
  std::uint32_t lease_uses = 0;
  std::uint8_t lease_rounds = 1;
  bool timed = false;    // EngineConfig::lease_time, which never ends: time does not pass
  bool accesses = true;  // false: no node reads or writes a page
  bool roles =
      false;  // nodes of cluster 0 only write the last page, the others only read; none takes the lock
  bool tries = false;       // nodes also try the lock
  bool at_address = false;  // the lock is one at an address, whose place is `lock`
  bool fairness = false;    // checks the order and the number of uses of the lock, and its leases, too
  std::uint32_t migrate_after = 0;
  std::uint32_t fetch_ahead = 0;
  std::uint32_t run_pages = 1;
  bool pack = false;
  bool release_at_unlock = false;
  std::uint32_t first_touch = 0;  // so many of the last pages
  // Of the first pages; the others' are cyclic, and unplaced if none moves or is fetched ahead.
  std::vector<std::uint16_t> homes = {};
  bool invariants = true;  // are the engines' own assertions asked after every event?
  std::string text() const;
};

// One possible event.
struct Action {
  enum class What : std::uint8_t { kStep, kLeave, kArrive } what;
  std::uint8_t a;  // kStep: the node; kLeave: from; kArrive: index on the wire
  std::uint8_t b;  // kStep: the operation, page and kind; kLeave: to
};

class EngineWorld {
 public:
  // All state that changes later is in memory that the constructor allocates.
  explicit EngineWorld(const WorldBounds& bounds);
  ~EngineWorld();
  EngineWorld(const EngineWorld&) = delete;
  EngineWorld& operator=(const EngineWorld&) = delete;

  // Lists the possible next events, each once, in an order that depends on the state alone.
  void list(std::vector<Action>& actions) const;
  // Carries it out; false if an invariant was violated, which wrong() describes.
  bool apply(Action action);
  // Checks the final state, when there is no event any more. Changes the state.
  bool check_end();
  // Equal for states that behave alike.
  std::uint64_t digest() const;

  // Text for a trace. Call it before apply().
  std::string describe(Action action) const;
  static const std::string& wrong();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace braid::dsm
