// The memory that the simulator's engine and one cluster's shell share, and in which they pass the baton.
//
// The engine has every protocol object. A shell is the process of one cluster's program, with the heap, its
// protections and the compute nodes as fibres. Only one of these processes runs at a time. The engine gives a
// shell the baton; the shell returns it when a compute node makes a request, or when every runnable node has
// reached the end of the window. Then it may also give it to another shell, as far as the engine can tell what that may
// do: this saves the way over the engine. Only the process that has the baton may read or write this memory
// (exceptions: Control::turn, Control::engines_turn and Control::running).
//
//   engine                                                      shell
//   clocks, results, protections, until  ──► turn = kShell ──►  nodes run in the order of their clocks
//   the request of `asking`       ◄── engines_turn = true ◄── a node's request, or the window's end, at which
//                                      turn of `next` = kShell ──► the shell of cluster `next` goes on
//
// Times are cycles of a compute node since the run began.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/bytes.h"
#include "base/limits.h"
#include "dsm/engine/types.h"
#include "dsm/program/collective_call.h"

namespace braid::sim {

namespace variable {
// Environment variables with the numbers of two file descriptors that a shell inherits: of the Controls, and
// of the heaps. Each file has a part for every cluster, at control_offset() and heap_offset(). Behind those of the heaps is
// one more of their size, with the contents that pages begin with (Control::filled_pages).
inline constexpr const char* kControlFd = "BRAID_SIM_CONTROL_FD";
inline constexpr const char* kHeapFd = "BRAID_SIM_HEAP_FD";
// The number of the shell's cluster; not set: 0.
inline constexpr const char* kCluster = "BRAID_SIM_CLUSTER";
}  // namespace variable

// Changes with every layout or meaning in this file: a shell of another build ends with an error.
inline constexpr std::uint32_t kControlVersion = 15;

// A compute node's request to the engine. The node waits until the engine makes it runnable again.
struct Request {
  enum class Kind : std::uint8_t {
    kNone,
    kFault,     // page, write
    kLock,      // id
    kUnlock,    // id
    kTryLock,   // id; the result is 1 if the node has the lock
    kBarrier,   // id, reduction, value
    kSync,      // sync
    kAllocate,  // pages, homes: for this node alone, inside parallel()
    kPrefetch,  // page, pages
    // The figures of the run begin anew at this moment, inside parallel().
    kResetFigures,
    // call; CallKind::kAllocate: pages and homes too. By node 0 for its cluster. The calls of all clusters
    // must be equal (dsm::difference() describes a difference). After CallKind::kParallel all nodes of the
    // cluster run, from the same moment on. CallKind::kLeave: by one node of one cluster alone; the run ends with
    // it: before all other calls in the part of main() in which there are no other clusters, or with main() or a thread
    // that calls exit(), while other nodes have threads of the program that never end.
    kCollective,
    // The node has finished its part of parallel() (the barrier at its end included) or of kRunOnCluster, and
    // has nothing to run until the next one. Node 0 asks too: it continues when all nodes of its cluster
    // have.
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
  // The node's clock. The shell advances it while the node runs, the engine while the node waits.
  std::int64_t clock = 0;
  // The node may run. The engine sets it; the shell clears it when the node makes a request.
  bool runnable = false;
  // The engine's answer: dsm::Engine::result(); of an allocation, a collective one too, its first page, or
  // dsm::kNoPages.
  dsm::Reduction reduction = dsm::Reduction::kNone;
  std::uint64_t result = 0;
  Request request;
};

// Pages whose protection has changed since the shell's last turn. The shell applies the changes, in this
// order, before any node runs.
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
  std::uint32_t page_bytes = static_cast<std::uint32_t>(dsm::PageLength().bytes());
  std::int64_t cycles_per_second = 0;  // of a compute node

  std::size_t heap_bytes() const { return std::size_t{heap_pages} * page_bytes; }

  // A futex: whether this shell has the baton. A program's first turn is in init(), which waits for it. After the
  // collective call kFinish the program keeps the baton of its last turn, and its process ends by itself. A
  // program that fails ends its process during its turn: with a message on standard error and status 70
  // (dsm/program/failure.h), by exit(), or by a crash. So the engine, when it waits for the baton, also
  // checks whether the process lives.
  static constexpr std::uint32_t kOthers = 0;
  static constexpr std::uint32_t kShell = 1;
  static constexpr std::uint32_t kLeave = 2;  // the run is over: the shell ends its process at once
  std::atomic<std::uint32_t> turn{kOthers};
  // Cluster 0's alone. A futex: 1 if the engine has the baton.
  std::atomic<std::uint32_t> engines_turn{1};
  // From the engine: the cluster whose shell has the baton next, unless a node asks; kEngine: none.
  static constexpr std::uint16_t kEngine = 0xffff;
  std::uint16_t next = kEngine;

  // From the engine. A node whose clock has reached `until` does not run. Of the runnable nodes the one with
  // the earliest clock runs (at equal clocks the one with the lowest number), until it is `quantum` ahead of
  // the next one; a cycle less if the next one's number is lower. So with a quantum of 1 the order is that of
  // clocks and numbers, wherever windows end.
  std::int64_t until = 0;
  std::int64_t quantum = 1;
  std::int64_t check_units = 0;  // what an access check costs
  std::uint32_t protection_runs = 0;
  // Every allocated page is below this one. An access at or above it is the program's error and ends it.
  std::uint32_t allocated_pages = 0;

  // From the shell: the node that makes a request; kNobody: every runnable node has reached `until`.
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  std::uint32_t asking = kNobody;
  // From the shell: the node that runs, or ran last. The engine may read it while the shell has the baton, to
  // name the node that keeps it too long.
  std::atomic<std::uint32_t> running{0};
  // From a program whose main() runs once (dsm/once/main_once.h), in cluster 0: before main().
  bool is_once = false;
  // From cluster 0's program: the process that it has cloned for this cluster, a child of the engine. 0: none; the
  // engine starts a process of its own.
  std::atomic<std::int32_t> clone{0};
  // From the shell: pages below this one, which are placed by first touch and were not accessed yet, begin with contents,
  // the same in all clusters; cluster 0's shell has written them. All other pages begin with zeros.
  std::uint32_t filled_pages = 0;
  // From the shell, with its first request: where the program sees its shared globals, for texts
  // (dsm::Engine::place_objects()).
  std::uint32_t first_place_of_globals = ~std::uint32_t{0};
  std::uint64_t globals_address = 0;
  // From the engine: the run has ended, and this cluster's program, which did not end it, ends with its next turn (kLeave).
  bool is_over = false;
  // The program was compiled with the charging plug-in. Otherwise its clocks advance by the processor's time,
  // and runs differ.
  bool counted = false;

  ProtectionRun protections[kMaxProtectionRuns];
  NodeControl nodes[kMaxComputeNodes];
};
static_assert(std::is_standard_layout_v<Control>);

// Where a cluster's parts begin in the two files: at multiples of what the system maps.
inline constexpr std::size_t kPartUnit = 65536;
constexpr std::size_t control_offset(unsigned cluster) {
  return std::size_t{cluster} * round_up(sizeof(Control), kPartUnit);
}
// Of another cluster of the same machine. The whole of the first file is mapped.
inline Control& control_of(Control& any, unsigned cluster) {
  auto* const at = reinterpret_cast<std::byte*>(&any);
  return *reinterpret_cast<Control*>(at - control_offset(any.cluster) + control_offset(cluster));  // NOLINT
}
constexpr std::size_t heap_offset(unsigned cluster, std::size_t heap_bytes) {
  return std::size_t{cluster} * round_up(heap_bytes, kPartUnit);
}

}  // namespace braid::sim
