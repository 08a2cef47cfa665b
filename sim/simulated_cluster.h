// One cluster of a simulated machine: its page engine, its compute nodes, and the
// shell that runs them. The page protocol's work takes some compute node's time:
//
//   a node's request          the node's own
//   a message that arrives    a waiting node's, else that of the next computing node, which is delayed
//                             meanwhile (MGS handles messages on the compute nodes); with Handlers::kOwn that of
//                             a processor that does nothing else
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/parallel_time.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "dsm/engine/engine.h"
#include "dsm/program/lock_misuse.h"
#include "settings/cost_model.h"
#include "settings/simulation.h"
#include "sim/clock_rate.h"
#include "sim/cluster_clocks.h"
#include "sim/compute_node.h"
#include "sim/events.h"
#include "sim/iccs.h"
#include "sim/machine_figures.h"
#include "sim/phase_history.h"
#include "sim/shell_turns.h"
#include "sim/wait_costs.h"

namespace braid::sim {

struct MachineConfig {
  IccsConfig iccs;            // the clusters, and the mode
  std::uint16_t compute = 1;  // nodes per cluster
  dsm::PageLength page_length = dsm::PageLength();
  std::uint32_t heap_pages = 65536;
  dsm::Protocol protocol = dsm::Protocol::kEager;
  // The greatest random delay of a request, in cycles; iccs.seed draws the
  // delays. Where nodes race for a lock, the order changes all that follows,
  // so one run is a sample; runs with other seeds are further samples.
  std::uint32_t jitter = 0;
  // Executes everything strictly in order, in steps of one cycle:
  // slow, with the same result. For a test that it is the same.
  bool strict = false;
  // Constants of the engine other than the protocol's.
  settings::EngineSettings engine;
  settings::Handlers handlers = settings::Handlers::kCompute;
};

// Shared by all clusters of a machine.
struct MachineShared {
  MachineShared(const MachineConfig& its_config, const settings::CostModel& its_model, Iccs::Sink& sink)
      : config(its_config),
        model(its_model),
        rate(static_cast<std::int64_t>(its_model.cycles_per_second / its_model.unit)),
        jitter(its_config.jitter == 0 ? Duration() : its_model.time(its_config.jitter)),
        clocks(its_config.iccs.clusters),
        events(its_config.iccs.clusters),
        iccs(its_config.iccs, its_model, events, sink) {}

  // Ends the run. Only the first cause is kept.
  void fail(Error why) {
    if (failure.ok()) failure = std::move(why);
  }
  // The time from a node's request until the page protocol has it, without jitter.
  Duration entry(Request::Kind kind) const {
    return model.time(kind == Request::Kind::kFault ? model.fault : model.call);
  }

  // What the model's costs of a whole page are multiplied by: they are those of 4 KiB.
  double model_pages() const {
    return static_cast<double>(config.page_length.bytes()) / static_cast<double>(dsm::PageLength().bytes());
  }

  const MachineConfig config;
  const settings::CostModel model;
  const ClockRate rate;  // of the nodes' clocks; one cycle is one unit of the program's counts
  const Duration jitter;
  ClusterClocks clocks;  // SimulatedCluster::clock() of each
  Events events;
  Iccs iccs;
  ParallelTime parallel;
  Result<void> failure;
};

class SimulatedCluster {
 public:
  class Owner {
   public:
    // The last node of the machine has left parallel().
    virtual void parallel_ended() = 0;
    // A node begins the machine's figures anew.
    virtual void reset_figures() = 0;
    // Its initial node makes a collective call, and waits.
    virtual void on_collective_call(SimulatedCluster& cluster, unsigned node, const Request& request) = 0;

   protected:
    ~Owner() = default;
  };

  // `shell` and `shared` outlive this. Each node gets a seed of its own from `seeds`.
  SimulatedCluster(MachineShared& shared, Owner& owner, ClusterId id, Shell& shell, Prng& seeds);
  SimulatedCluster(const SimulatedCluster&) = delete;
  SimulatedCluster& operator=(const SimulatedCluster&) = delete;

  ClusterId id() const { return id_; }
  // The earliest clock of the runnable nodes; ClockRate::kNever if there is none.
  std::int64_t clock() const { return turns_.clock(); }
  // The page engine has messages to send.
  bool has_output() const { return !engine_.output_clusters().empty(); }
  // The node's request.
  const Request& request(unsigned node) const { return turns_.control().nodes[node].request; }

  // The initial node begins, or returns from a collective call.
  void resume_initial(Instant at) { resume(0, at); }
  // The program has joined the machine.
  void join(Instant at);
  // Nodes run, none beyond `until`. A node's request becomes an event.
  void run(std::int64_t until);
  // The same in parts: several clusters are prepared, and run one after the other, until a node asks. prepare() tells
  // whether it can be, and then the clock is taken for what it will be; cancel() makes it what it is. end() tells whether
  // the next one has run.
  bool prepare(std::int64_t until);
  void begin(const std::vector<SimulatedCluster*>& relay);
  bool end();
  void cancel();
  // The page protocol receives the node's request.
  void on_request(unsigned node);
  // Both take a node's time. The result says which node's, and until when.
  Iccs::Sink::Handled on_message(Instant now, ClusterId from, ByteView message);
  Iccs::Sink::Handled on_room(Instant now);

  // Parts of collective calls. allocate() carries out kAllocate;
  // return_allocation() returns its result to the initial node.
  void allocate(const Request& request);
  void return_allocation(Instant at);
  // All its nodes wait at a barrier with those of all clusters. Afterwards
  // the first `nodes` nodes run; the others are outside parallel().
  void begin_barrier(Instant now, unsigned nodes);
  // The program runs its last turn.
  void finish(Instant now, unsigned node);

  // All nodes leave parallel() at once: the run ends.
  void leave_parallel(Instant now);
  // The run has ended without a last turn of the program.
  void dismiss() { turns_.control().is_over = true; }

  // All nodes have left parallel(), the last one at `end`.
  void wait_for_last(Instant end);

  // What it has done so far no longer counts.
  void reset_figures();

  // A line for each node that waits.
  std::string explain_waits() const;
  // Adds the figures of its nodes and of its engine.
  void add_to(MachineFigures& figures) const;

 private:
  // The node whose time the page protocol's work takes, or on whose behalf the cluster's own processor works, and the
  // time that it has reached.
  struct Work {
    unsigned node;
    Instant at;
    std::size_t bytes = 0;  // size of the message that is being handled
  };

  NodeControl& control(unsigned node) { return turns_.control().nodes[node]; }
  std::uint32_t allocated_pages() const { return shared_.config.heap_pages - engine_.free_pages(); }
  // The page that the node requested has been opened, and the node has not run since.
  bool is_granted(unsigned node) {
    return control(node).runnable && control(node).clock == nodes_[node].granted_at();
  }
  void make_granted_accesses(PageId first, std::uint32_t count, dsm::Access access);
  void after_turn(const Result<std::uint32_t>& asking);
  // Follows each change of a node's clock, or of whether it is runnable.
  void tell_clock() { shared_.clocks.set(id_.value(), clock()); }
  void ask(unsigned node);
  void resume(unsigned node, Instant at);
  void count_wait(unsigned node, Request::Kind kind, Duration waited);
  std::uint32_t count_sent(const dsm::ClusterCounts& before);
  void resume_complete(Instant at);
  void end_barrier(Instant at);

  std::optional<dsm::LockMisuse> misuse_of(unsigned node, const Request& request) const;
  double cost_of(Request::Kind kind) const;
  bool start(unsigned node, const Request& request);
  void go_idle(unsigned node);
  template <class Operation>
  void charged(Work& work, Operation&& operation);
  void send_output(Work& work);
  bool send_one(Work& work, ClusterId to);
  unsigned handler();
  template <class Operation>
  Iccs::Sink::Handled handle(Instant now, Operation&& operation);
  void took_time_of(unsigned node, Duration took, Instant until);
  unsigned next_in_turn() { return next_held_up_++ % static_cast<unsigned>(nodes_.size()); }

  MachineShared& shared_;
  Owner& owner_;
  const ClusterId id_;
  std::vector<ComputeNode> nodes_;
  ShellTurns turns_;
  bool is_prepared_ = false;
  dsm::Engine engine_;
  unsigned next_held_up_ = 0;
  Instant own_busy_until_;            // Handlers::kOwn
  unsigned nodes_after_barrier_ = 0;  // how many run after the current barrier; 0: there is none
  std::uint64_t allocation_ = 0;      // the result of the last allocate()
  std::vector<dsm::NodeCounts> node_counts_before_;  // by node: what counts no longer
  dsm::ClusterCounts counts_before_;
  std::vector<WaitCosts> wait_costs_;  // by node
  PhaseHistory sent_;                  // in parallel()
  std::uint64_t phase_ = 0;            // barriers that this cluster has passed in parallel()
};

}  // namespace braid::sim
