// What the simulator's engine and one cluster's shell share: the memory through which the baton goes.
//
// The engine holds every protocol object; a shell is the process of one cluster's program, with the heap, its
// protections and its compute nodes as fibres. One of all these processes runs at a time: the engine gives a
// shell the baton, and the shell gives it back when a compute node asks for something, or when all that can
// run have come to the end of the window. Whoever has the baton may read and write everything here; nobody
// else may.
//
//   engine                                                      shell
//   clocks, results, protections, until  ──► turn = kShell ──►  nodes run in the order of their clocks
//   the request of `asking`              ◄── turn = kEngine ◄── a node asks, or all are at the window's end
//
// Times are cycles of a compute node since the run began.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dsm/engine/types.h"
#include "dsm/program/collective_call.h"

namespace braid::sim {

namespace variable {
// Descriptors, as decimal numbers, that a shell inherits: of the Control, and of the memfd that is the
// cluster's heap.
inline constexpr const char* kControlFd = "BRAID_SIM_CONTROL_FD";
inline constexpr const char* kHeapFd = "BRAID_SIM_HEAP_FD";
}  // namespace variable

// Changes with anything in this file: engine and shell are built together, and say so if they were not.
inline constexpr std::uint32_t kControlVersion = 4;

inline constexpr unsigned kMaxNodesPerCluster = 64;

// What a compute node wants of the machine. It waits until the engine makes it runnable again.
struct Request {
  enum class Kind : std::uint8_t {
    kNone,
    kFault,     // page, write
    kLock,      // id
    kUnlock,    // id
    kBarrier,   // id, reduction, value
    kSync,      // sync
    kAllocate,  // pages, homes: by this node alone, inside parallel()
    // call; CallKind::kAllocate: pages and homes too. By node 0 for its cluster. The calls of all clusters must
    // be equal (dsm::difference() describes a difference). After CallKind::kParallel all nodes of the cluster
    // run, from the same moment on.
    kCollective,
    // The node has finished its part of parallel() (the barrier at its end included) or of kRunOnCluster, and
    // has nothing to run until the next one. Node 0 asks too: it continues when all nodes of its cluster have.
    kIdle,
    // By node 0: all nodes of this cluster run, from the same moment on. Other clusters are not involved, and
    // there is no barrier: for loops on the cluster's own nodes.
    kRunOnCluster,
  };
  Kind kind = Kind::kNone;
  bool write = false;
  dsm::Reduction reduction = dsm::Reduction::kNone;
  std::uint32_t page = 0;
  std::uint32_t pages = 0;
  std::uint32_t id = 0;
  dsm::Homes homes = {};
  std::uint64_t value = 0;
  dsm::SyncCall sync = {};
  dsm::CollectiveCall call = {};
};

struct alignas(64) NodeControl {
  // The node's clock: while it runs its shell moves it, while it waits the engine.
  std::int64_t clock = 0;
  // It may run. The engine sets it; the shell clears it when the node asks for something.
  bool runnable = false;
  // The engine's answer: dsm::Engine::result(); of an allocation, a collective one too, its first page, or
  // dsm::kNoPages.
  dsm::Reduction reduction = dsm::Reduction::kNone;
  std::uint64_t result = 0;
  Request request;
};

// Pages whose protection has changed since the shell last ran: it carries these out, in this order, before
// any node runs.
struct ProtectionRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  dsm::Access access = dsm::Access::kNone;
};
inline constexpr std::uint32_t kMaxProtectionRuns = 4096;

struct Control {
  std::uint32_t version = kControlVersion;
  std::uint16_t cluster = 0;
  std::uint16_t clusters = 1;
  std::uint16_t compute = 1;  // nodes of this cluster
  std::uint16_t reserved = 0;
  std::uint32_t heap_pages = 0;
  std::int64_t cycles_per_second = 0;  // of a compute node

  // A futex: whose turn it is. A program has no turn before init(), which waits for one; after the call
  // kFinish it keeps the last one that it is given, and its process ends by itself. A program that cannot go
  // on ends its process in the middle of its turn: with a message on standard error and status 70
  // (dsm/program/failure.h), by exit(), or by a crash. So whoever waits for a turn watches the process too.
  static constexpr std::uint32_t kEngine = 0;
  static constexpr std::uint32_t kShell = 1;
  static constexpr std::uint32_t kLeave = 2;  // to the shell: end the process at once, the run is over
  std::atomic<std::uint32_t> turn{kEngine};

  // From the engine. No node runs on when its clock is at or beyond `until`. Of two that can run the one with
  // the earlier clock does, of equal ones the one with the lower number, until it is `quantum` ahead of the
  // other; a cycle less if the other has the lower number, so that a quantum of 1 is the order of clocks and
  // numbers wherever windows end.
  std::int64_t until = 0;
  std::int64_t quantum = 1;
  std::uint32_t protection_runs = 0;
  // All pages that were allocated lie below: an access behind them is a wrong pointer, and a crash.
  std::uint32_t allocated_pages = 0;

  // From the shell: the node that asks for something; kNobody: all that can run have come to `until`.
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  std::uint32_t asking = kNobody;
  // From the shell: the node whose program runs, or ran last. The one thing that the engine may read while
  // the shell has the baton: who keeps it for too long.
  std::atomic<std::uint32_t> running{0};
  // The program was built with charges of the compiler plug-in; else clocks come from the processor, and no
  // run is like another.
  bool counted = false;

  ProtectionRun protections[kMaxProtectionRuns];
  NodeControl nodes[kMaxNodesPerCluster];
};
static_assert(std::is_standard_layout_v<Control>);

}  // namespace braid::sim
