// Starts the daemons and applications of a run with what each needs: wires, configuration, control socket,
// counters, report, pulse. It keeps our ends of what is shared with them, by cluster, and reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsm/live/pulse.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/node_config.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/report.h"
#include "tools/braid/run/shared_files.h"
#include "tools/braid/run/supervisor.h"
#include "tools/braid/run/verdict.h"

namespace braid::cli {

class Launcher {
 public:
  // `options` must live as long.
  explicit Launcher(const RunOptions& options) : options_(options), config_(options.config) {}

  // Plans the nodes and makes the wires between them; call it once, then start the daemons in order of
  // clusters, then daemons_started(), then, when all are ready, the applications.
  Result<void> make_wires();
  Result<ChildId> start_daemon(ChildProcesses& children, unsigned cluster);
  void daemons_started() { wires_.clear(); }
  // `input`: what it reads from; -1: nothing. `debugger`: the address of the Debugger that waits for it; empty: there is
  // none.
  Result<ChildId> start_application(ChildProcesses& children, unsigned cluster, int input,
                                    const std::string& debugger = "");

  // A daemon tells through a pipe that it is connected to all others.
  void watch_ready(std::vector<pollfd>& fds) const;
  // Takes what has come; returns whether all daemons are ready.
  bool take_ready();
  // Clusters whose daemons are not: "0, 3".
  std::string late_clusters() const;

  // For the watchdog. No compute node of this cluster computes.
  bool waits(unsigned cluster) const;
  std::uint64_t progress() const;

  // The record that its application left of its end.
  RecordedEnd end_of(unsigned cluster) const;

  // Adds counters and application reports; `clusters` has an entry for each.
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
  std::string namespace_of(unsigned cluster) const;

  const RunOptions& options_;
  const settings::RunConfig& config_;
  const std::string run_name_ = unique_run_name();
  std::vector<proxy::NodeConfig> plans_;  // by cluster
  std::vector<Descriptor> wires_;         // until the daemons have them
  std::vector<Node> nodes_;               // by cluster, of daemons that were started
};

}  // namespace braid::cli
