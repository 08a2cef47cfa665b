// One cluster's part of the machine: joins the page engine, the heap, the network and the compute nodes'
// threads.
//
// Who serves. The engine and the network belong to whoever holds the combiner lock. A compute node that waits
// (for a page, a lock, a barrier) polls: it takes the lock when it is free, handles what has arrived, sends
// what there is to send, and tells siblings whose operation became complete. While no compute node polls, one
// server thread serves, woken by the network's bell. The argument that no wake-up is lost stands at
// Runtime::leave_polling().
//
// A fault is handled in the faulting thread, wherever it was: it allocates nothing, logs nothing, and takes
// no lock but the combiner lock, whose holder never touches the application's view of the heap and so never
// faults.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "dsm/api.h"
#include "dsm/engine/engine.h"
#include "dsm/live/environment.h"
#include "dsm/live/inspector.h"
#include "dsm/live/memory.h"
#include "dsm/live/network.h"
#include "dsm/live/pulse.h"
#include "dsm/live/report.h"
#include "dsm/live/steps.h"
#include "dsm/live/trace.h"
#include "dsm/live/waiting.h"
#include "dsm/program/faults.h"
#include "dsm/program/host.h"

namespace braid::dsm {

class Runtime final : public Host, private FaultSink, private Network::Sink {
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
  const char* cure_for_want_of_heap() const override;
  void parallel(const std::function<void(Node&)>& body) override;
  void run_on_cluster(const std::function<void(unsigned)>& body) override;
  void barrier_of_clusters() override;
  void finish() override;
  void lock(unsigned local, LockId lock) override;
  void unlock(unsigned local, LockId lock) override;
  Reduced barrier(unsigned local, BarrierId barrier, Reduction reduction, std::uint64_t value) override;
  std::uint64_t sync(unsigned local, const SyncCall& call) override;

  // --- A thread that is no compute node, and then stands for compute node `local` until leave(), as
  // dsm/threads.h says.
  void adopt(unsigned local) const;
  static void leave();

  // dsm/live/trace.h
  void trace_faults(bool on) { tracing_.store(on); }
  FaultStamps latest_fault() const;

 private:
  // What a compute node waits with.
  struct alignas(64) LocalNode {
    Completion completion;
    NodeTimes times;
    int crowded_waits = 0;  // that this node will rather sleep than yield in
    FaultStamps stamps;     // written under combiner_ while the node waits, else by the node
  };
  // Holds the combiner lock.
  class Hold;

  Runtime(const Environment& environment, std::unique_ptr<Network> network, Memory memory);

  bool on_fault(std::uintptr_t address, bool write) override;
  void on_message(ClusterId from, ByteView message) override;

  // Starts an engine operation of compute node `local`; false: wait(local).
  template <class Operation>
  [[nodiscard]] bool begin(unsigned local, Operation&& operation);
  void wait(unsigned local, Instant deadline = Instant::never());
  void enter_polling();
  void leave_polling();
  bool work_is_there() const;

  // With the combiner lock held.
  bool serve(unsigned lane);
  void pump(unsigned lane);
  bool pump_to(ClusterId to, unsigned lane);
  void tell_the_complete();
  bool operation_complete(unsigned local) const;
  void check_links();
  void judge_link(ClusterId peer, const char* trouble);
  [[noreturn]] void fail_for_refusal(const Refusal& refusal) const;

  // Takes a step with all other clusters; ends the process if they disagree, or at the deadline, if there is
  // one.
  enum class AtDeadline : std::uint8_t { kFail, kGoOn };
  void take_step(const StepFacts& facts, Instant deadline = Instant::never(),
                 AtDeadline then = AtDeadline::kFail);
  bool step_complete() const;
  // Says what every compute node of this cluster does, a line each, on standard error.
  void say_waits();
  std::string explain(unsigned local) const;
  void all_nodes_barrier();
  std::string report() const;

  void run_on_all(const std::function<void(unsigned)>& job);
  void node_thread(unsigned local);
  void server_thread();
  void stop_threads();

  const Environment environment_;
  std::unique_ptr<Network> network_;
  const bool drives_proxies_;  // network_->moves_only_in_poll()
  Memory memory_;
  SignalStack initial_stack_;

  CombinerLock combiner_;
  // Guarded by combiner_.
  Engine engine_;
  Steps steps_;
  std::uint64_t waiting_ = 0;        // compute nodes whose operation is under way, a bit each
  bool step_under_way_ = false;      // node 0 waits for steps_
  bool finishing_ = false;           // peers may leave once they have finished
  std::uint64_t gone_ = 0;           // clusters that left after they finished
  std::uint64_t steps_to_send_ = 0;  // clusters that have not been sent the current step yet
  StepMessage step_;
  std::uint32_t serves_ = 0;
  unsigned server_lane_ = 0;  // the compute node that serves
  Instant message_taken_;     // while tracing_

  // Engine output waits for room in the network: somebody must try again, although nothing will ring.
  std::atomic<bool> output_pending_{false};
  // Compute nodes that poll.
  alignas(64) std::atomic<std::uint32_t> pollers_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> tracing_{false};

  Pulse own_pulse_;  // while nobody watches
  Pulse* pulse_ = &own_pulse_;
  std::unique_ptr<LocalNode[]> nodes_;
  int looks_before_yield_ = 0;

  // How the initial thread hands a function to the other compute nodes.
  std::mutex crew_mutex_;
  std::condition_variable crew_called_;
  std::condition_variable crew_done_;
  const std::function<void(unsigned)>* job_ = nullptr;
  std::uint64_t round_ = 0;
  unsigned running_ = 0;
  bool dismissed_ = false;

  std::vector<std::thread> crew_;
  std::thread server_;
  std::unique_ptr<Inspector> inspector_;
};

}  // namespace braid::dsm
