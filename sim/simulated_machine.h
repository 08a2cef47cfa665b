// A machine in virtual time: its clusters (sim/simulated_cluster.h), the ICCS between them, and the clock that
// moves the compute nodes, whose program runs elsewhere (sim/shell). Page engines and ICCS are the production
// objects.
//
// A compute node runs on its own clock until it makes a request, which becomes an event at its
// clock's time. No node runs beyond the earliest moment at which an event could still change its
// cluster's memory: the next event of its own cluster, or any other event plus the least time
// that its effect takes to arrive. So a node reads what it would have read had everything been
// executed in order, and a run depends only on its configuration, its program and its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/fnv.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "settings/cost_model.h"
#include "sim/collective_calls.h"
#include "sim/iccs.h"
#include "sim/machine_figures.h"
#include "sim/simulated_cluster.h"

namespace braid::sim {

class SimulatedMachine final : private Iccs::Sink, private SimulatedCluster::Owner {
 public:
  // Called for each message that is delivered while parallel() runs; may be empty.
  using Trace = std::function<void(const MessageReport&)>;

  // The shells, by cluster; they outlive the machine.
  SimulatedMachine(const MachineConfig& config, const settings::CostModel& model,
                   const std::vector<Shell*>& shells, Trace trace = {});
  SimulatedMachine(const SimulatedMachine&) = delete;
  SimulatedMachine& operator=(const SimulatedMachine&) = delete;

  // Runs the programs until all clusters have called finish(). An error: a program's mistake,
  // the end of its process, or that all compute nodes wait for each other, and for what.
  Result<MachineFigures> run();

 private:
  Handled on_message(Instant now, ClusterId at, ClusterId from, ByteView message) override;
  void on_room(Instant now, ClusterId at) override;
  void on_delivered(const MessageReport& report) override;
  void on_lost(Instant now, ClusterId at, ClusterId peer, const char* why) override;

  void parallel_ended() override;
  void reset_figures() override;
  void on_collective_call(SimulatedCluster& cluster, unsigned node, const Request& request) override;

  void begin_programs();
  SimulatedCluster& cluster(ClusterId id) { return *clusters_[id.value()]; }
  void run_clusters();
  std::int64_t window_of(const SimulatedCluster& cluster) const;
  void on_event(const Event& event);
  void make_call(dsm::CallKind kind);
  void end_run(Instant now);
  void leave(SimulatedCluster& first, unsigned node);
  void hash(Instant at, std::uint64_t whose, std::uint64_t what);
  struct Transmissions {
    std::uint64_t retransmissions = 0;
    std::uint64_t spurious = 0;
    std::uint64_t frames_lost = 0;
  };
  Transmissions transmissions() const;
  bool is_stuck() const;
  Error deadlock() const;
  MachineFigures figures() const;

  MachineShared shared_;
  std::vector<std::unique_ptr<SimulatedCluster>> clusters_;
  std::vector<SimulatedCluster*> relay_;  // those that run one after the other
  CollectiveCalls calls_;
  const Trace trace_;
  Instant began_;
  bool finished_ = false;  // all clusters have called finish()
  Duration whole_{};
  MessageFigures messages_;
  std::vector<std::uint64_t> received_;  // by cluster
  Transmissions transmissions_before_;   // what counts no longer
  Fnv1a trace_hash_;
};

}  // namespace braid::sim
