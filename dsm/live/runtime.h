// One cluster's part of the machine, as the host of its program: joins the heap, the network, the page engine and
// the compute nodes' threads.
//
//   Runtime        converts the program's calls and page faults to operations of the combiner
//   Combiner       engine, collective call, messages: for the holder of the combiner lock
//   NodeWaits      a compute node that waits (for a page, a lock, a barrier) polls, and so serves all nodes
//   ServerThread   serves while no compute node polls
//   Pollers        decides which of the two serves; no wake-up is lost between them
//   Crew           the compute nodes' threads
//   PulseWriter    their counts, for a watchdog
//   Activity       which of them wait, and which compute without a call, for the same
//
// A fault is handled in the faulting thread, wherever it was. It allocates
// and logs nothing, and takes no lock but the combiner lock, whose holder
// never accesses the application's view of the heap and so never faults.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/parallel_time.h"
#include "base/result.h"
#include "base/time.h"
#include "dsm/api.h"
#include "dsm/live/activity.h"
#include "dsm/live/combiner.h"
#include "dsm/live/crew.h"
#include "dsm/live/environment.h"
#include "dsm/live/fault_repetitions.h"
#include "dsm/live/inspector.h"
#include "dsm/live/memory.h"
#include "dsm/live/network.h"
#include "dsm/live/node_costs.h"
#include "dsm/live/node_processors.h"
#include "dsm/live/node_waits.h"
#include "dsm/live/pollers.h"
#include "dsm/live/pulse_writer.h"
#include "dsm/live/report.h"
#include "dsm/live/server_thread.h"
#include "dsm/live/trace.h"
#include "dsm/program/faults.h"
#include "dsm/program/host.h"

namespace braid::dsm {

class Runtime final : public Host, private FaultSink {
 public:
  // Joins the other clusters; the calling thread becomes the initial thread, which stands for compute node 0
  // whenever parallel() is not running. `network` is null when there is one cluster only. Waits for the
  // others at most environment.connect_timeout.
  static Result<std::unique_ptr<Runtime>> start(const Environment& environment,
                                                std::unique_ptr<Network> network, const std::string& program);
  ~Runtime() override;

  int current_node() const override;
  std::optional<PageId> allocate_together(const Allocation& allocation) override;
  std::optional<PageId> allocate_alone(unsigned local, const Allocation& allocation) override;
  std::uint32_t free_pages() override;
  const char* cure_for_full_heap() const override;
  void parallel(const std::function<void(Node&)>& body) override;
  void begin_parallel(std::function<void(Node&)> body) override;
  void end_parallel() override;
  bool start_node(unsigned local, const NodeThread& thread) override;
  void fill(PageId first, std::span<const std::byte> contents) override;
  void run_on_cluster(const std::function<void(unsigned)>& body) override;
  void barrier_of_clusters() override;
  void finish() override;
  void prefetch(unsigned local, PageId first, std::uint32_t count) override;
  void lock(unsigned local, LockId lock) override;
  void unlock(unsigned local, LockId lock) override;
  bool try_lock(unsigned local, LockId lock) override;
  Reduced barrier(unsigned local, BarrierId barrier, Reduction reduction, std::uint64_t value) override;
  std::uint64_t sync(unsigned local, const SyncCall& call) override;
  void reset_figures(unsigned local) override;
  void abandon_in_child() override;

  // --- For a thread that is not a compute node: from adopt()
  // to leave() it is compute node `local`, as in dsm/threads.h.
  void adopt(unsigned local) const;
  static void leave();

  // dsm/live/trace.h
  void trace_faults(bool on) { combiner_.trace(on); }
  FaultStamps latest_fault();

 private:
  struct alignas(64) Times : NodeTimes {
    NodeCounts counts_before;  // reset_figures()
    FaultRepetitions repetitions;
    NodeCosts costs;
  };

  Runtime(const Environment& environment, std::unique_ptr<Network> network, Memory memory);

  bool on_fault(std::uintptr_t address, bool write) override;
  void on_unmapped(std::uintptr_t address) override;

  // Makes a collective call and waits for the other clusters; ends the process if they make another one, or at
  // the deadline, if there is one.
  enum class AtDeadline : std::uint8_t { kFail, kGoOn };
  void call_together(const CollectiveCall& call, Instant deadline = Instant::never(),
                     AtDeadline then = AtDeadline::kFail);
  // Ends the process: the access can never succeed.
  [[noreturn]] void fail_for_endless_faults(unsigned local, std::uintptr_t address) const;
  void enter_parallel();
  void begin_parallel_time();
  void end_parallel_time();
  void run_on_all(const std::function<void(unsigned)>& job);
  struct StartedNode;
  static void* run_started_node(void* started);
  void stop_threads();
  Result<void> share_globals();
  void collect_globals();

  // Writes to standard error what each compute node of this cluster waits for, one line per node.
  void write_waits();
  std::string explain_wait(unsigned local);
  std::string explain_computing(unsigned local);
  std::string report();
  // With the combiner lock held: a compute node for threads of the program which has not had one yet.
  bool is_spare(unsigned local);

  const pid_t owner_ = ::getpid();
  const Environment environment_;
  const NodeProcessors processors_;
  const std::unique_ptr<Network> network_;
  Memory memory_;
  SignalStack initial_stack_;
  PulseWriter pulse_;
  Combiner combiner_;
  Pollers pollers_;
  NodeWaits waits_;
  Activity activity_;
  const std::unique_ptr<Times[]> times_;  // of compute nodes; each is written by its node
  CountsBefore before_;                   // with the combiner lock
  ParallelTime parallel_time_;            // with the combiner lock; the cluster counts as one node

  std::optional<ServerThread> server_;  // where there is a network
  std::optional<Crew> crew_;
  std::function<void(unsigned)> open_job_;  // between begin_parallel() and end_parallel()
  std::optional<Inspector> inspector_;
};

}  // namespace braid::dsm
