// A program's host in virtual time: the shell of one cluster (sim/shell/control.h). It has the heap, its
// protections and the compute nodes, as fibres of the process's only thread. The engine, in another process,
// decides about the nodes' requests.
//
// The runnable node with the earliest clock runs, until it is a quantum ahead of the next or at the end of
// the window (sim/shell/node_order.h). Clocks advance by the program's charges (sim/charge/budget.h).
//
//      program  ──stop_clock()──►   shell  ──give_baton()──►  engine
//      (a node's clock runs)          │ run_next(): another fibre
//      program  ◄──start_clock()──  shell  ◄────────────────  engine
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "dsm/program/faults.h"
#include "dsm/program/host.h"
#include "dsm/program/object_ids.h"
#include "sim/charge/budget.h"
#include "sim/shell/baton.h"
#include "sim/shell/control.h"
#include "sim/shell/mappings.h"
#include "sim/shell/node_fibres.h"

namespace braid::sim {

// The clock of the running compute node, in seconds since the run began; before the shell starts 0, or what the
// program has computed (before_init.h), and afterwards the time of its end. Called on the program's thread.
double seconds_of_run();

// The locks that a compute node has. Allocates for those at addresses only: the runtime's own is taken inside malloc().
class HeldLocks {
 public:
  bool contains(dsm::LockId lock) const {
    return is_numbered(lock) ? numbered_[lock.value()] : at_addresses_.contains(lock);
  }
  void insert(dsm::LockId lock) {
    if (is_numbered(lock))
      numbered_.set(lock.value());
    else
      at_addresses_.insert(lock);
  }
  void erase(dsm::LockId lock) {
    if (is_numbered(lock))
      numbered_.reset(lock.value());
    else
      at_addresses_.erase(lock);
  }

 private:
  static bool is_numbered(dsm::LockId lock) { return lock.value() < dsm::kNumberedLocks; }

  std::bitset<dsm::kNumberedLocks> numbered_;
  std::unordered_set<dsm::LockId> at_addresses_;
};

class ShellHost final : public dsm::Host, private dsm::FaultSink {
 public:
  // Joins the run whose descriptors the environment names; the calling thread becomes the program's thread
  // and compute node 0. An error names the cure. At most one shell exists at a time.
  static Result<std::unique_ptr<ShellHost>> start(const Mappings::Lookup& lookup, const std::string& program);
  ~ShellHost() override;

  friend double seconds_of_run();
  // The one that exists; nullptr: none does.
  static ShellHost* current();

  int current_node() const override;
  std::optional<PageId> allocate_together(const dsm::Allocation& allocation) override;
  std::optional<PageId> allocate_alone(unsigned local, const dsm::Allocation& allocation) override;
  std::uint32_t free_pages() override;
  const char* cure_for_full_heap() const override;
  void parallel(const std::function<void(dsm::Node&)>& body) override;
  void begin_parallel(std::function<void(dsm::Node&)> body) override;
  void end_parallel() override;
  void fill(PageId first, std::span<const std::byte> contents) override;
  void run_on_cluster(const std::function<void(unsigned)>& body) override;
  void barrier_of_clusters() override;
  void finish() override;
  void prefetch(unsigned local, PageId first, std::uint32_t count) override;
  void lock(unsigned local, dsm::LockId lock) override;
  void unlock(unsigned local, dsm::LockId lock) override;
  bool try_lock(unsigned local, dsm::LockId lock) override;
  dsm::Reduced barrier(unsigned local, dsm::BarrierId barrier, dsm::Reduction reduction,
                       std::uint64_t value) override;
  std::uint64_t sync(unsigned local, const dsm::SyncCall& call) override;
  void reset_figures(unsigned local) override;
  void keep_order() override;

  // The running node computes for so many units (sim/charge/budget.h), or sleeps: other nodes go on meanwhile.
  void pass(std::int64_t units);
  // The clock of the running node.
  std::int64_t clock();
  // Of a program with threads of its own (own_threads.h): the calling node's thread-local variables begin anew.
  void renew_variables() const;
  // The run ends, whatever other nodes do. Compute node 0 of cluster 0; the caller ends the process.
  void leave();

 private:
  ShellHost(const dsm::Shape& shape, Mappings mappings);

  bool on_fault(std::uintptr_t address, bool write) override;
  void on_unmapped(std::uintptr_t address) override;
  void on_spent();
  // A check has found an access closed (sim/charge/budget.h).
  void on_closed(std::uintptr_t address, bool write);

  // The shell's code runs between the two; the node's clock does not advance.
  void stop_clock();
  void start_clock();
  // Makes a request for the running node. Returns the engine's answer when the node runs again.
  const NodeControl& ask(const Request& request);
  // As ask(), while the clock is stopped.
  void submit(const Request& request);
  void run_next();
  // Asks for `request`, after which all nodes of the cluster run `job` with their numbers. Returns when all
  // have.
  void run_on_all(const Request& request, const std::function<void(unsigned)>& job);
  // The two halves of it, without node 0's part.
  void begin_on_all(const Request& request, const std::function<void(unsigned)>& job);
  void end_on_all();
  [[noreturn]] void node_loop(unsigned local);

  // Where the program's globals are shared they are the first allocation of every cluster; at the end cluster 0, in which
  // main() goes on, reads what the others have written.
  void share_globals();
  void collect_globals();

  double seconds();

  // Returns when the baton is back and the engine's changes of protection are applied.
  void give_baton(std::uint32_t asking);

  // Ends the process with a message if the caller is not compute node `local`.
  void check_caller(unsigned local) const;

  Mappings mappings_;
  Control& control_;
  Baton baton_;
  Meter meter_;
  NodeFibres fibres_;
  bool in_shell_ = true;  // the shell's code runs, not the program's
  const std::function<void(unsigned)>* job_ = nullptr;
  std::function<void(unsigned)> open_job_;  // between begin_parallel() and end_parallel()
  std::vector<HeldLocks> locks_;            // by compute node
};

}  // namespace braid::sim
