// What carries out the calls of dsm/api.h in this process: live, a runtime that joins the other clusters
// through the service; in virtual time, the shell of a simulator. The calls check their arguments and whether
// they can be; a host finds them checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "dsm/api.h"
#include "dsm/engine/types.h"
#include "dsm/program/lock_misuse.h"

namespace braid::dsm {

// The barrier of parallel() itself and of all else that is the runtime's own, behind those that programs use.
inline constexpr BarrierId kOwnBarrier{kBarriers};

// A host puts these before every message between engines: whose it is. Eight bytes keep an engine's message
// aligned.
inline constexpr std::size_t kMessageHeaderBytes = 8;

// The machine that a program runs on, and the cluster that this process is.
struct Shape {
  std::uint16_t clusters = 1;
  std::uint16_t cluster = 0;
  std::uint16_t compute = 1;  // nodes of a cluster
  std::uint32_t heap_pages = 0;
};

// A cluster's page engine for programs: what api.h promises of each there is.
EngineConfig engine_config(const Shape& shape);

// What a program asks for, and what that is in pages.
struct Allocation {
  std::size_t bytes = 0;
  Placement placement;
  std::uint32_t pages = 0;  // no more than one above those of the heap: then there are not so many
  Homes homes;
};

// What a barrier made of the values that nodes brought; what kind of reduction the nodes called.
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

  // The function given to parallel() or run_on_cluster() is running.
  bool in_parallel() const { return in_parallel_; }
  // The compute node of this cluster that the caller is; -1: none.
  virtual int current_node() const = 0;

  // --- Initial thread, outside parallel(), with those of all clusters.

  // The first page; nothing when there are not so many.
  virtual std::optional<PageId> allocate_together(const Allocation& allocation) = 0;
  // Runs run_node() of every compute node of this cluster, after whatever initial threads wrote before is
  // seen by all, and while in_parallel().
  virtual void parallel(const std::function<void(Node&)>& body) = 0;
  // The same with run_part(), in this cluster alone: no other one notices.
  virtual void run_on_cluster(const std::function<void(unsigned)>& body) = 0;
  virtual void barrier_of_clusters() = 0;
  // Returns when no other cluster needs this one any more, with its report written; the heap is still there
  // until the destructor.
  virtual void finish() = 0;

  // --- Compute node `local`, inside parallel().

  virtual std::optional<PageId> allocate_alone(unsigned local, const Allocation& allocation) = 0;
  // This one, unlock() and sync() call fail_for_misuse() with what LockMisuse says of the call.
  virtual void lock(unsigned local, LockId lock) = 0;
  virtual void unlock(unsigned local, LockId lock) = 0;
  virtual Reduced barrier(unsigned local, BarrierId barrier, Reduction reduction, std::uint64_t value) = 0;
  // Returns the engine's result.
  virtual std::uint64_t sync(unsigned local, const SyncCall& call) = 0;

  // --- The initial thread or any compute node.

  // Pages that no allocation has taken.
  virtual std::uint32_t free_pages() = 0;
  // What to do when there are none, for a message: "raise BRAID_HEAP_MIB".
  virtual const char* cure_for_want_of_heap() const = 0;

  // --- A child of fork(), in which nothing else is called from now on. Other threads may have held any lock.

  // Gives up what would act for the parent unasked.
  virtual void abandon_in_child() {}

 protected:
  explicit Host(const Shape& shape) : shape_(shape) {}

  // Calls `body` as compute node `local`; run_node() comes to the barrier at its end. An exception that
  // leaves it ends the process with a message.
  void run_node(unsigned local, const std::function<void(Node&)>& body);
  void run_part(unsigned local, const std::function<void(unsigned)>& body);

  // Returns if there is none, else ends the process with a message.
  void fail_for_misuse(unsigned local, const std::optional<LockMisuse>& misuse) const;
  // Say what was wrong with an access to shared memory, before the crash that follows.
  static void say_touched_by_foreign_thread();       // a thread that is no compute node
  static void say_touched_inside();                  // while the host's code ran
  static void say_touched_behind_all();              // behind all that is allocated
  [[noreturn]] static void fail_touched_in_child();  // in a child of fork()

  // Written by the initial thread while no other compute node runs.
  std::atomic<bool> in_parallel_{false};

 private:
  const Shape shape_;
};

// Makes `host` the one that the process has, for the calls of api.h until finish(). Ends the process with a
// message if it has one: check_not_joined() says so before the host is made. Initial thread.
void join(std::unique_ptr<Host> host);
void check_not_joined();
// The host; ends the process with a message that names the call when there is none, and in a child of fork().
Host& joined_host(const char* call);
// The host; nullptr before init() and after finish(). Any thread, also in a signal handler.
const Host* current_host();
// Whether this process is a child that a process with a host has forked.
bool is_forked_child();

}  // namespace braid::dsm
