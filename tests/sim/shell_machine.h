// Shells of a small machine for tests: their programs' processes, and an engine that does at once what nodes
// ask for. Page engines are the production ones, joined without a network in between.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dsm/engine/engine.h"
#include "sim/shell/control.h"

namespace braid::sim {

struct ShellMachineConfig {
  std::uint16_t clusters = 1;
  std::uint16_t compute = 1;
  std::uint32_t heap_pages = 1024;
  std::int64_t quantum = 1;
  // How far a shell may run ahead of other clusters' nodes.
  std::int64_t window = 1000;
  // What an operation costs the node that asks.
  std::int64_t operation_cycles = 100;
  std::int64_t cycles_per_second = 20'000'000;
};

class ShellMachine {
 public:
  explicit ShellMachine(const ShellMachineConfig& config);
  // Kills what still runs.
  ~ShellMachine();
  ShellMachine(const ShellMachine&) = delete;
  ShellMachine& operator=(const ShellMachine&) = delete;

  // In every cluster a process of its own that calls `program`, or is it; before run(), once.
  void start(const std::function<int()>& program);
  void start(const std::vector<std::string>& command);

  // How a cluster's process ended, and what it wrote to standard error.
  struct Ending {
    int exit_status = -1;  // -1: a signal ended it
    int signal = 0;
    std::string text;
  };
  // Until all have ended; when one ends too early the others are told to leave. Kills all after a minute.
  std::vector<Ending> run();

  // A request, with what its node's clock and the cluster's protections were then.
  struct Asked {
    unsigned cluster = 0;
    unsigned node = 0;  // of its cluster
    std::int64_t clock = 0;
    Request request;
  };
  const std::vector<Asked>& asked() const { return asked_; }
  // Those of one kind.
  std::vector<Asked> asked(Request::Kind kind) const;
  // Why the run could not go on, if it could not: no node can run, or clusters disagree.
  const std::string& trouble() const { return trouble_; }
  std::uint64_t turns() const { return turns_; }
  // Turns that ended because all nodes had come to the window's end.
  std::uint64_t full_windows() const { return full_windows_; }

  // Called before a shell gets its turn: it may change what the shell finds.
  std::function<void(unsigned cluster, Control& control)> before_turn;

 private:
  struct Cluster;

  void start_process(Cluster& cluster, const std::function<int()>& program);
  // False: the process has ended.
  bool turn(Cluster& cluster);
  bool ended(Cluster& cluster);
  void serve(Cluster& cluster, unsigned node);
  void run_on_cluster(Cluster& cluster);
  // Makes the collective call that all clusters wait for, if all do.
  void make_calls();
  void carry_out_call(dsm::CallKind kind);
  void pump();
  void release_complete(std::int64_t now);
  void let_run(Cluster& cluster, unsigned node, std::int64_t clock);
  Cluster* next_cluster();
  void end_all();

  const ShellMachineConfig config_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Asked> asked_;
  std::string trouble_;
  std::uint64_t turns_ = 0;
  std::uint64_t full_windows_ = 0;
  std::int64_t deadline_ns_ = 0;
  cpu_set_t affinity_before_ = {};
};

}  // namespace braid::sim
