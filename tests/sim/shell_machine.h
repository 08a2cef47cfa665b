// A small machine of shells for tests: the programs' processes, and an engine that carries out requests at
// once. It uses the production page engines and passes their messages without a network.
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
  // The cost of an operation for the requesting node.
  std::int64_t operation_cycles = 100;
  std::int64_t cycles_per_second = 20'000'000;
};

class ShellMachine {
 public:
  explicit ShellMachine(const ShellMachineConfig& config);
  // Kills the processes that still run.
  ~ShellMachine();
  ShellMachine(const ShellMachine&) = delete;
  ShellMachine& operator=(const ShellMachine&) = delete;

  // Starts a process for every cluster, which calls `program` or executes `command`. Once, before run().
  void start(const std::function<int()>& program);
  void start(const std::vector<std::string>& command);

  // How a cluster's process ended, and its standard error.
  struct Ending {
    int exit_status = -1;  // -1: a signal ended it
    int signal = 0;
    std::string text;
  };
  // Runs until all processes have ended. When one ends early the others get Control::kLeave. Kills all after
  // a minute.
  std::vector<Ending> run();

  // A request and its node's clock.
  struct RecordedRequest {
    unsigned cluster = 0;
    unsigned node = 0;  // of its cluster
    std::int64_t clock = 0;
    Request request;
  };
  const std::vector<RecordedRequest>& recorded() const { return recorded_; }
  // Those of one kind only.
  std::vector<RecordedRequest> recorded(Request::Kind kind) const;
  // Why the run was stopped: no node can run, or clusters make different calls. Empty: it was not.
  const std::string& error() const { return error_; }
  std::uint64_t turns() const { return turns_; }
  // Turns that ended because all nodes had reached the end of the window.
  std::uint64_t full_windows() const { return full_windows_; }

  // Called before a shell's turn; may change the Control.
  std::function<void(unsigned cluster, Control& control)> before_turn;

 private:
  struct Cluster;
  // With a part for each cluster, and inherited (sim/shell/control.h).
  struct File {
    File(const char* name, std::size_t bytes);
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const std::size_t bytes;
    const int fd;
    std::byte* const memory;
  };

  void start_process(Cluster& cluster, const std::function<int()>& program);
  // Returns false if the process has ended.
  bool turn(Cluster& cluster);
  bool ended(Cluster& cluster);
  void serve(Cluster& cluster, unsigned node);
  void run_on_cluster(Cluster& cluster);
  // Makes the collective call that all clusters wait for, if all do.
  void make_calls();
  void carry_out_call(dsm::CallKind kind);
  void exchange_messages();
  void release_complete(std::int64_t now);
  void let_run(Cluster& cluster, unsigned node, std::int64_t clock);
  Cluster* next_cluster();
  void end_all();

  const ShellMachineConfig config_;
  File controls_, heaps_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<RecordedRequest> recorded_;
  std::string error_;
  std::uint64_t turns_ = 0;
  std::uint64_t full_windows_ = 0;
  std::int64_t deadline_ns_ = 0;
  cpu_set_t affinity_before_ = {};
};

}  // namespace braid::sim
