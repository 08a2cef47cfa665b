// A program's host in virtual time: the shell of one cluster (sim/shell/control.h). It holds the heap, its
// protections and the compute nodes, as fibres of the process's one thread; what they ask for, the engine
// decides, in another process.
//
// Which node runs: of those that can, the one with the earliest clock, until it is a quantum ahead of the
// next or at the window's end. Clocks move by what the compiler's plug-in counts (sim/charge/budget.h).
//
//      program  ──leave()──►  shell  ──give_baton()──►  engine
//      (a node's clock runs)    │ run_next(): another fibre
//      program  ◄──enter()───  shell  ◄────────────────  engine
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsm/program/faults.h"
#include "dsm/program/host.h"
#include "sim/charge/budget.h"
#include "sim/shell/baton.h"
#include "sim/shell/control.h"
#include "sim/shell/mappings.h"
#include "sim/shell/node_fibres.h"

namespace braid::sim {

// By the clock of the compute node that runs, since the run began; 0 before there is a shell, and the last
// one's end after it. The program's thread.
double seconds_of_run();

class ShellHost final : public dsm::Host, private dsm::FaultSink {
 public:
  // Joins the run whose descriptors the environment names; the calling thread becomes the program's one
  // thread, and compute node 0. An error names the cure. One at a time.
  static Result<std::unique_ptr<ShellHost>> start(const Mappings::Lookup& lookup, const std::string& program);
  ~ShellHost() override;

  friend double seconds_of_run();

  int current_node() const override;
  std::optional<PageId> allocate_together(const dsm::Allocation& allocation) override;
  std::optional<PageId> allocate_alone(unsigned local, const dsm::Allocation& allocation) override;
  std::uint32_t free_pages() override;
  const char* cure_for_want_of_heap() const override;
  void parallel(const std::function<void(dsm::Node&)>& body) override;
  void run_on_cluster(const std::function<void(unsigned)>& body) override;
  void barrier_of_clusters() override;
  void finish() override;
  void lock(unsigned local, dsm::LockId lock) override;
  void unlock(unsigned local, dsm::LockId lock) override;
  dsm::Reduced barrier(unsigned local, dsm::BarrierId barrier, dsm::Reduction reduction,
                       std::uint64_t value) override;
  std::uint64_t sync(unsigned local, const dsm::SyncCall& call) override;

 private:
  ShellHost(const dsm::Shape& shape, Mappings mappings);

  bool on_fault(std::uintptr_t address, bool write) override;
  void on_spent();

  // Where the program comes in and goes on. Between the two its clock stands still.
  void leave();
  void enter();
  // Asks for the node that runs, and returns when the engine lets it go on; with the engine's answer.
  const NodeControl& ask(const Request& request);
  // The part of it inside the shell.
  void hand_in(const Request& request);
  void run_next();
  // Asks for `request`, after which all nodes of the cluster run `job` with their numbers. Returns when all have.
  void run_on_all(const Request& request, const std::function<void(unsigned)>& job);
  [[noreturn]] void node_loop(unsigned local);

  double seconds();

  // Returns when the baton is back, and what the engine has protected is.
  void give_baton(std::uint32_t asking);

  // Ends the process with a message if the caller is not compute node `local`.
  void check_caller(unsigned local) const;

  const Mappings mappings_;
  Control& control_;
  Baton baton_;
  Meter meter_;
  NodeFibres fibres_;
  bool inside_ = true;  // the shell's code runs, not the program's
  const std::function<void(unsigned)>* job_ = nullptr;
  std::vector<std::bitset<dsm::kLocks>> locks_;  // by compute node: those that it has
};

}  // namespace braid::sim
