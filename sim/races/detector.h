// Finds data races: two accesses to a byte of shared memory, by different compute nodes, at least one of them a write,
// that no synchronisation orders. Happens-before is exact for every byte: vector clocks, with epochs for single
// accesses, as in FastTrack (Flanagan and Freund, PLDI 2009).
//
// The clusters' processes share one detector, in a file in memory. Only the process that has the baton runs, so it
// needs no locks.
//
//   report | clocks: a row per compute node, a row per synchronisation object | names | allocations | places | steps |
//   index | accesses
//
// Objects that are named by addresses get their rows at their first use; names: a hash table of these.
//
// Steps: for each compute node the last ones with which it synchronised, each with the node's clock after it, so that the
// clock of an access tells which step came before it and which after it. They are for the report only.
//
// Index: for every 8 bytes of the heap the first of a list of accesses. A list has no access that a later one replaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "dsm/program/host.h"
#include "sim/shell/race_totals.h"

namespace braid::sim {

// How an access is made.
enum class AccessKind : std::uint8_t { kRead, kWrite, kAtomic };

class RaceDetector {
 public:
  // The objects that order accesses. Barriers have two: nodes may come to the next use before all have left the last.
  enum class Object : std::uint8_t {
    kLock,
    kFlag,
    kSemaphore,
    kWord,
    kEvenBarrier,
    kOddBarrier,
    kParallelBegin,
    kParallelEnd,
    kGathering,
    kCluster,
  };

  // Maps the file of descriptor `fd`, which is the caller's, and gives it the size that it needs.
  static Result<std::unique_ptr<RaceDetector>> map(int fd, const dsm::Shape& shape);

  // What a compute node does to synchronise, for the report.
  enum class Action : std::uint8_t {
    kNone,
    kLocked,
    kUnlocked,
    kPassed,  // a barrier
    kSet,
    kWaitedFor,
    kPosted,
    kTookOneOf,  // a semaphore, without waiting
    kRead,
    kWrote,
    kChanged,
    kBegan,  // its part of parallel() or run_on_cluster()
    kEnded,
  };
  // On what.
  enum class Thing : std::uint8_t {
    kLock,
    kCondition,
    kFlag,
    kSemaphore,
    kWord,
    kBarrier,
    kGathering,
    kClusters,  // a barrier of the clusters
    kParallel,
    kRunOnCluster,
  };
  struct Step {
    Action action = Action::kNone;
    Thing thing = Thing::kLock;
    std::uint32_t id = 0;     // of the object
    std::uint32_t place = 0;  // place_of()'s result
  };

  // Accesses of `node` before release() happen before those that follow another node's acquire() of the object. With a
  // step: what the node does now. The second half of a step, and what no report names, has none.
  void release(unsigned node, Object object, unsigned id, const Step* step = nullptr);
  void acquire(unsigned node, Object object, unsigned id, const Step* step = nullptr);
  // The number of the place with these calls, the innermost first, for steps. 0: it is not known.
  std::uint32_t place_of(std::span<const std::uintptr_t> calls);

  // `pc`: inside the instruction of the program.
  void access(unsigned node, std::uintptr_t address, std::size_t bytes, AccessKind kind, std::uintptr_t pc);
  // `calls`: that led to the allocation, the innermost first.
  void allocated(PageId first, std::size_t bytes, std::span<const std::uintptr_t> calls);
  // Forgets all accesses to these bytes, which are a multiple of 8 at a multiple of 8.
  void begin_again(std::uintptr_t address, std::size_t bytes);

 private:
  struct Access {
    std::uint32_t next = 0;   // in the list, or among free ones; 0: none
    std::uint32_t clock = 0;  // of its node
    std::uint32_t pc = 0;     // from the program's beginning, which differs between processes
    std::uint16_t node = 0;
    std::uint8_t bytes = 0;  // of the 8
    AccessKind kind = AccessKind::kRead;
  };
  struct Site;
  struct State;
  struct Name;
  struct Place;
  struct PastStep;

  explicit RaceDetector(const dsm::Shape& shape);
  // Divides `memory`; nullptr: only counts. Returns the number of bytes.
  std::size_t divide(std::byte* memory);
  std::uint32_t* clocks_of(unsigned node) const { return clocks_ + std::size_t{node} * nodes_; }
  std::uint32_t* clocks_of(Object object, unsigned id) const;
  // The row of an object at an address, among those.
  unsigned row_of(Object object, unsigned id) const;
  bool happened_before(const Access& access, unsigned node) const {
    return access.node == node || access.clock <= clocks_of(node)[access.node];
  }
  void access_granule(std::size_t granule, const Access& access);
  bool conflict(const Access& a, const Access& b) const;
  std::uint32_t take();
  // Puts the first access of the list among the free ones.
  void drop(std::uint32_t& list);
  void found(const Access& earlier, const Access& later, std::size_t granule);
  std::string place(const Access& access) const;
  void note(unsigned node, const Step& step);
  // The step that the node's clock `clock` followed, or came before; nullptr: there is none, or it is forgotten.
  const PastStep* step_before(unsigned node, std::uint32_t clock) const;
  const PastStep* step_after(unsigned node, std::uint32_t clock) const;
  void describe(RaceSide& side, const Access& access) const;
  void describe(RaceStep& text, const PastStep* step) const;
  std::string describe_allocation(std::size_t offset) const;

  const dsm::Shape shape_;
  const unsigned nodes_;
  State* state_ = nullptr;
  std::uint32_t* clocks_ = nullptr;
  Name* names_ = nullptr;
  Site* sites_ = nullptr;
  Place* places_ = nullptr;
  PastStep* steps_ = nullptr;
  std::uint32_t* index_ = nullptr;
  Access* accesses_ = nullptr;
};

}  // namespace braid::sim
