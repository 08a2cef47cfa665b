// The host that this process runs on: its clusters' processes are this process's children.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "proxy/daemon/node_config.h"
#include "tools/braid/process/cgroup.h"
#include "tools/braid/run/launcher.h"
#include "tools/braid/run/run_host.h"
#include "tools/braid/run/supervisor.h"

namespace braid::cli {

class LocalHost final : public RunHost {
 public:
  // `plans`: of its clusters (plan.h). `children` and `options` must live as long.
  LocalHost(ChildProcesses& children, const RunOptions& options, const std::string& run,
            std::vector<proxy::NodeConfig> plans)
      : children_(children), launcher_(options, run, std::move(plans)), memory_kills_(own_memory_kills()) {}

  // Before they are started (Launcher::place()).
  void place(std::span<const PlacedCluster> clusters) { launcher_.place(clusters); }

  Result<void> start_daemons() override;
  Result<void> start_application(unsigned cluster, int input, const std::string& debugger) override;
  void signal(const RunProcess& process, int number, SignalTo to) override;
  void ask_for_waits(unsigned cluster) override;
  void close() override {}
  void watch(std::vector<pollfd>& fds) const override { launcher_.watch_ready(fds); }
  Instant next_deadline() const override { return Instant::never(); }
  void turn(Instant) override { launcher_.take_ready(); }
  bool take_end(const EndedChild& ended) override;
  std::vector<HostEvent> take_events() override { return std::exchange(events_, {}); }
  std::vector<unsigned> late_clusters() const override { return launcher_.late_clusters(); }
  bool waits(unsigned cluster) const override;
  dsm::NodesNow nodes(unsigned cluster) const override { return launcher_.nodes(cluster); }
  bool is_stopped(const RunProcess& process) const override;
  std::uint64_t progress() const override { return launcher_.progress(); }
  void collect(std::vector<ClusterReport>& clusters) const override { launcher_.collect(clusters); }

 private:
  void adopt(const RunProcess& process, ChildId child);
  // Of a process that was killed: what there is to say where the kernel did it, for want of memory.
  std::string text_of_kill();
  // Null: it was not started.
  const ChildId* child_of(const RunProcess& process) const;

  ChildProcesses& children_;
  Launcher launcher_;
  std::uint64_t memory_kills_;  // that are known
  std::map<RunProcess, ChildId> processes_;
  std::vector<HostEvent> events_;
};

}  // namespace braid::cli
