// Carries out the calls of dsm/api.h in this process. In a live run: a runtime that joins
// the other clusters through the service. In virtual time: the shell of a simulator. The
// calls in api.cpp check arguments and state; the host does not check them again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "dsm/api.h"
#include "dsm/engine/types.h"
#include "dsm/program/lock_misuse.h"

namespace braid::dsm {

// The runtime's own barrier, for parallel() and similar; its number follows those of programs.
inline constexpr BarrierId kOwnBarrier{kBarriers};
// The runtime's own lock, for the memory of shared_malloc(), likewise.
inline constexpr LockId kOwnLock{kLocks};
// The one of initialisers of function-local statics, where these are shared.
inline constexpr LockId kGuardLock{kLocks + 1};

// A host puts this header before every message between engines; it has
// the message's kind. Eight bytes keep the engine's message aligned.
inline constexpr std::size_t kMessageHeaderBytes = 8;

// The machine that a program runs on, and the number of this cluster.
struct Shape {
  std::uint16_t clusters = 1;
  std::uint16_t cluster = 0;
  std::uint16_t compute = 1;  // per cluster
  std::uint32_t heap_pages = 0;
  Protocol protocol = Protocol::kEager;
  PageLength page_length = PageLength();

  std::size_t heap_bytes() const { return page_length.bytes_of(heap_pages); }
};

// The configuration of a cluster's page engine for programs, with the numbers of api.h.
EngineConfig engine_config(const Shape& shape);

// The request of a program, and its size in pages.
struct Allocation {
  std::size_t bytes = 0;
  Placement placement;
  std::uint32_t pages = 0;  // at most the heap's size plus one, which means too many
  Homes homes;
};

// The result of a barrier's reduction, and the reduction that the nodes called.
struct Reduced {
  std::uint64_t value = 0;
  Reduction reduction = Reduction::kNone;
};

class Host {
 public:
  virtual ~Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const Shape& shape() const { return shape_; }
  unsigned node_count() const { return unsigned{shape_.clusters} * shape_.compute; }
  unsigned node_id(unsigned local) const { return unsigned{shape_.cluster} * shape_.compute + local; }

  // True while the function given to parallel() or run_on_cluster() runs.
  bool in_parallel() const { return in_parallel_; }
  // The compute node of this cluster that calls; -1: the caller is none.
  virtual int current_node() const = 0;

  // --- For the initial thread, outside parallel(): collective calls.

  // Returns the first page; nullopt if there are not enough pages.
  virtual std::optional<PageId> allocate_together(const Allocation& allocation) = 0;
  // Runs run_node() for every compute node of this cluster, with
  // in_parallel(). All earlier writes of initial threads are visible to it.
  virtual void parallel(const std::function<void(Node&)>& body) = 0;
  // parallel() in two halves, for a main() that goes on inside it as compute node 0 of its cluster (dsm/once): the
  // other compute nodes of this cluster run `body` between them. Without a `body`, which only hosts of live runs allow, they
  // run nothing but what start_node() gives them.
  virtual void begin_parallel(std::function<void(Node&)> body) = 0;
  virtual void end_parallel() = 0;
  // Between the two halves, where there is no body: a new thread becomes compute node `local`, which no other thread is,
  // calls `body`, then the destructors of its thread-local variables and `ended`, the last of it. Any compute node.
  // False: the system gives no thread; errno tells why.
  struct NodeThread {
    void (*body)(void* argument) = nullptr;
    void (*ended)(void* argument) = nullptr;
    void* argument = nullptr;
    bool only_serves =
        false;  // it waits outside the runtime until others need it, and no watchdog waits for it
  };
  [[nodiscard]] virtual bool start_node(unsigned local, const NodeThread& thread);
  // Contents of pages that no compute node of any cluster has accessed yet; every cluster makes the same calls.
  virtual void fill(PageId first, std::span<const std::byte> contents) = 0;
  // The same with run_part(), in this cluster alone; other clusters are not involved.
  virtual void run_on_cluster(const std::function<void(unsigned)>& body) = 0;
  virtual void barrier_of_clusters() = 0;
  // Returns when no other cluster needs this one, and its
  // report is written. The heap is mapped until the destructor.
  // Inside begin_parallel() without a body any compute node may call it, once, and other threads may still run;
  // then the caller ends the process.
  virtual void finish() = 0;

  // --- For compute node `local`, inside parallel().

  virtual std::optional<PageId> allocate_alone(unsigned local, const Allocation& allocation) = 0;
  // Requests pages that this cluster has no copy of, without waiting. Outside parallel() also by the initial thread.
  virtual void prefetch(unsigned local, PageId first, std::uint32_t count) = 0;
  // lock(), unlock() and sync() call fail_for_misuse() with LockMisuse's result for the call.
  virtual void lock(unsigned local, LockId lock) = 0;
  virtual void unlock(unsigned local, LockId lock) = 0;
  // Whether the node has the lock now.
  virtual bool try_lock(unsigned local, LockId lock) = 0;
  virtual Reduced barrier(unsigned local, BarrierId barrier, Reduction reduction, std::uint64_t value) = 0;
  // Returns the engine's result.
  virtual std::uint64_t sync(unsigned local, const SyncCall& call) = 0;

  // What this node and, as far as it is known here, its cluster have done no longer counts in the closing report. Every node
  // of a machine that has done anything calls it, between two barriers.
  virtual void reset_figures(unsigned local) = 0;

  // --- For the initial thread or any compute node.

  // The number of pages that are not allocated.
  virtual std::uint32_t free_pages() = 0;
  // The cure for a full heap, for a message: "raise BRAID_HEAP_MIB".
  virtual const char* cure_for_full_heap() const = 0;

  // What the calling compute node does next with the cluster's private memory comes after what other nodes of the cluster have
  // done before, in the order of time: matters where nodes take turns, and a turn may run ahead. Any compute node.
  virtual void keep_order() {}

  // Allocated memory begins a second life: what was done with it before is no race with what follows. Any compute node.
  virtual void begin_again(std::uintptr_t address, std::size_t bytes);

  // --- For a child of fork(), in which nothing else is called. Other threads may have held any lock.

  // Closes what would otherwise act for the parent.
  virtual void abandon_in_child() {}

 protected:
  explicit Host(const Shape& shape) : shape_(shape) {}

  // Calls `body` as compute node `local`; run_node() ends with a barrier.
  // An exception that leaves `body` ends the process with a message.
  void run_node(unsigned local, const std::function<void(Node&)>& body);
  void run_part(unsigned local, const std::function<void(unsigned)>& body);

  // Returns if there is no misuse, otherwise ends the process with a message.
  void fail_for_misuse(unsigned local, const std::optional<LockMisuse>& misuse) const;
  // Returns if `address` is not in the lowest bytes of the calling thread's stack in shared memory (thread_host.h), otherwise
  // ends the process with a message.
  void check_stack(unsigned local, std::uintptr_t address) const;
  // Describe a wrong access to shared memory, before the crash that follows.
  static void report_foreign_access();              // a thread that is not a compute node
  static void report_access_inside_runtime();       // while the host's code ran
  static void report_access_behind_heap();          // an address behind the last allocation
  [[noreturn]] static void fail_access_in_child();  // in a child of fork()

  // Written by the initial thread while no other compute node runs.
  std::atomic<bool> in_parallel_{false};

 private:
  const Shape shape_;
};

// Makes `host` the process's host, for the calls of api.h until finish(). Ends the process with
// a message if there is one; check_not_joined() does so before the host is made. Initial thread.
void join(std::unique_ptr<Host> host);
void check_not_joined();
// The host. Ends the process with a message that names the call if there is none, or in a child of fork().
Host& joined_host(const char* call);
// The compute node of this cluster that calls. Ends the process with a message that names the call, and ends with `cure`, if
// the caller is none.
unsigned calling_node(const char* call, const char* cure = "");
// The host; nullptr before init() and after finish(). Any thread, also in a signal handler.
const Host* current_host();
// Whether this process was forked by a process that has a host.
bool is_forked_child();

}  // namespace braid::dsm
