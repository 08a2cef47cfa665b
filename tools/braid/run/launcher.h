// Starts the daemons and applications of this host's clusters with what each needs: wires, configuration, control socket,
// counters, report, pulse. It keeps our ends of what is shared with them and reads them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dsm/live/pulse.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/node_config.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/placement.h"
#include "tools/braid/run/report.h"
#include "tools/braid/run/shared_files.h"
#include "tools/braid/run/supervisor.h"
#include "tools/braid/run/verdict.h"

namespace braid::cli {

class Launcher {
 public:
  // `run`: a name that no other run on this host has. `plans`: of this host's clusters, in ascending order. `options` must
  // live as long.
  Launcher(const RunOptions& options, std::string run, std::vector<proxy::NodeConfig> plans)
      : options_(options), config_(options.config), run_name_(std::move(run)), plans_(std::move(plans)) {}

  // Binds the threads of these clusters, of which only this host's count; before anything is started.
  void place(std::span<const PlacedCluster> clusters);

  // Makes the shared-memory wires between the clusters; call it once, then start the daemons in order of
  // clusters, then daemons_started(), then, when all are ready, the applications.
  Result<void> make_wires();
  std::vector<unsigned> clusters() const;
  Result<ChildId> start_daemon(ChildProcesses& children, unsigned cluster);
  void daemons_started() { wires_.clear(); }
  // `input`: what it reads from; -1: nothing. `debugger`: the address of the Debugger that waits for it; empty: there is
  // none.
  Result<ChildId> start_application(ChildProcesses& children, unsigned cluster, int input,
                                    const std::string& debugger = "");

  // A daemon tells through a pipe that it is connected to all others.
  void watch_ready(std::vector<pollfd>& fds) const;
  // Takes what has come.
  void take_ready();
  // Clusters whose daemons are not ready.
  std::vector<unsigned> late_clusters() const;

  // For the watchdog. No compute node of this cluster computes.
  bool waits(unsigned cluster) const;
  dsm::NodesNow nodes(unsigned cluster) const;
  std::uint64_t progress() const;

  // The record that its application left of its end.
  RecordedEnd end_of(unsigned cluster) const;

  // Adds counters and application reports; `clusters` has an entry for each of the run.
  void collect(std::vector<ClusterReport>& clusters) const;

 private:
  struct Node {
    std::string service;  // address of its control socket
    SharedObject<proxy::NodeCounters> counters;
    Descriptor ready;  // one byte comes when the daemon is connected
    bool is_ready = false;
    Descriptor report;                                // the application's
    std::unique_ptr<SharedObject<dsm::Pulse>> pulse;  // of an application that was started
  };
  Result<Descriptor> make_secret_file() const;
  std::string namespace_of(unsigned cluster) const;
  Result<void> leave_unlabelled(OutputRelay& output, ProcessOptions& options) const;
  std::size_t index_of(unsigned cluster) const;
  // nullptr: what failed before has kept it from being made.
  const Node* find_node(unsigned cluster) const {
    const std::size_t index = index_of(cluster);
    return index < nodes_.size() ? &nodes_[index] : nullptr;
  }

  const RunOptions& options_;
  const settings::RunConfig& config_;
  const std::string run_name_;
  std::vector<proxy::NodeConfig> plans_;  // of this host's clusters, in ascending order
  std::map<unsigned, std::vector<unsigned>>
      processors_;                 // of compute nodes, by cluster; none: nothing is bound
  std::vector<Descriptor> wires_;  // until the daemons have them
  std::vector<Node> nodes_;        // in the same order, of daemons that were started
};

}  // namespace braid::cli
