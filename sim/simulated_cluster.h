// One cluster of a simulated machine: its page engine, its compute nodes, and the shell that these run in.
// What the page protocol does, it does in some compute node's time:
//
//   what a node asks for      the node's own
//   a message that arrives    of a node that waits, else of the next one that computes and is held up for
//                             so long (MGS handles messages on the compute nodes)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "dsm/engine/engine.h"
#include "dsm/program/lock_misuse.h"
#include "settings/cost_model.h"
#include "sim/clock_rate.h"
#include "sim/compute_node.h"
#include "sim/events.h"
#include "sim/iccs.h"
#include "sim/machine_figures.h"
#include "sim/parallel_time.h"
#include "sim/shell_turns.h"

namespace braid::sim {

struct MachineConfig {
  IccsConfig iccs;            // clusters, and the mode
  std::uint16_t compute = 1;  // nodes per cluster
  std::uint32_t heap_pages = 65536;
  // What a compute node asks for comes up to so many cycles later; iccs.seed draws how many each time. Where
  // nodes race for a lock, which one is first changes all that follows, so that one run is a sample: runs
  // with other seeds are the others.
  std::uint32_t jitter = 0;
  // Everything strictly one after the other, in steps of a cycle: slow, and the same result. To see that it
  // is.
  bool strict = false;
};

// What all clusters of a machine share.
struct MachineShared {
  MachineShared(const MachineConfig& its_config, const settings::CostModel& its_model, Iccs::Sink& sink)
      : config(its_config),
        model(its_model),
        rate(static_cast<std::int64_t>(its_model.cycles_per_second / its_model.unit)),
        jitter(its_config.jitter == 0 ? Duration() : its_model.time(its_config.jitter)),
        events(its_config.iccs.clusters),
        iccs(its_config.iccs, its_model, events, sink) {}

  // Ends the run. The first cause is what counts.
  void fail(Error why) {
    if (failure.ok()) failure = std::move(why);
  }
  // From when a node asks for something until the page protocol has it, without jitter.
  Duration entry(Request::Kind kind) const {
    return model.time(kind == Request::Kind::kFault ? model.fault : model.call);
  }

  const MachineConfig config;
  const settings::CostModel model;
  const ClockRate rate;  // of the nodes' clocks, whose cycles are units of what their programs count
  const Duration jitter;
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
    // Its initial node makes a call that all clusters make together, and waits.
    virtual void called_together(SimulatedCluster& cluster, const Request& request) = 0;

   protected:
    ~Owner() = default;
  };

  // `shell` outlives this, and so does what is shared. Each node gets a seed of its own from `seeds`.
  SimulatedCluster(MachineShared& shared, Owner& owner, ClusterId id, Shell& shell, Prng& seeds);
  SimulatedCluster(const SimulatedCluster&) = delete;
  SimulatedCluster& operator=(const SimulatedCluster&) = delete;

  ClusterId id() const { return id_; }
  // Of the nodes that may run the earliest one's; ClockRate::kNever: none may.
  std::int64_t clock() const { return turns_.clock(); }
  // The page engine has messages that nobody has sent yet.
  bool has_output() const { return engine_.output_clusters() != 0; }
  // What a node that asks wants.
  const Request& request(unsigned node) const { return turns_.control().nodes[node].request; }

  // The initial node begins, or a call of all clusters returns to it.
  void resume_initial(Instant at) { resume(0, at); }
  // Nodes run, none beyond `until`; one may ask for something, which becomes an event.
  void run(std::int64_t until);
  // The page protocol has what the node asked for.
  void on_request(unsigned node);
  // Both in the time of a node, and until when it takes.
  Iccs::Sink::Handled on_message(Instant now, ClusterId from, ByteView message);
  Iccs::Sink::Handled on_room(Instant now);

  // Parts of calls that all clusters make together. Carries out kAllocate, whose result return_allocation()
  // hands to the initial node.
  void allocate(const Request& request);
  void return_allocation(Instant at);
  // All its nodes come to a barrier with those of all clusters. After it the first `nodes` run; the others
  // are outside parallel().
  void begin_barrier(Instant now, unsigned nodes);
  // The program has its last turn.
  void finish(Instant now);

  // All nodes have left parallel(), the last one at `end`.
  void wait_for_last(Instant end);

  // A line for each node that waits.
  std::string explain_waits() const;
  // Adds its nodes and what its engine counted.
  void add_to(MachineFigures& figures) const;

 private:
  // Some node's time in which the page protocol works, and how far it has come.
  struct Work {
    unsigned node;
    Instant at;
    std::size_t bytes = 0;  // of the message that is being handled
  };

  NodeControl& control(unsigned node) { return turns_.control().nodes[node]; }
  std::uint32_t allocated_pages() const { return shared_.config.heap_pages - engine_.free_pages(); }
  // The page that the node asked for has been opened, and it has not run since.
  bool is_granted(unsigned node) {
    return control(node).runnable && control(node).clock == nodes_[node].granted_at();
  }
  void make_granted_accesses(PageId first, std::uint32_t count, dsm::Access access);
  void after_turn(const Result<std::uint32_t>& asking);
  void ask(unsigned node);
  void resume(unsigned node, Instant at);
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

  MachineShared& shared_;
  Owner& owner_;
  const ClusterId id_;
  std::vector<ComputeNode> nodes_;
  ShellTurns turns_;
  dsm::Engine engine_;
  unsigned next_held_up_ = 0;
  unsigned nodes_after_barrier_ = 0;  // that begin_barrier() has brought it to; 0: to none
  std::uint64_t allocation_ = 0;      // the result of the last allocate()
};

}  // namespace braid::sim
