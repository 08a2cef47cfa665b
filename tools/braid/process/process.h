// Processes that cannot outlive the command: each is a process group of its own, told by the kernel when the
// command dies, and known to a keeper that then kills the whole group.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

// A process beside the command that waits for its end, however it comes (kill -9 too), and then kills every
// group that was announced and not taken back. The kernel's death signal reaches only direct children; a
// script's children are reached here.
class Keeper {
 public:
  // Early: the keeper holds no descriptor that is opened later.
  static Result<Keeper> start();
  Keeper(Keeper&&) = default;
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper();  // lets the keeper end, and waits for it

  void announce(pid_t group);
  void take_back(pid_t group);

 private:
  Keeper(pid_t pid, Descriptor pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void tell(pid_t message);

  pid_t pid_;
  Descriptor pipe_;
};

struct ProcessOptions {
  std::string path;
  std::vector<std::string> arguments;    // argv, the name first
  std::vector<std::string> environment;  // NAME=value
  int stdin_fd = -1;                     // -1: /dev/null
  std::vector<int> inherited;            // stay open, by the same numbers; all others from 3 on are closed
  std::string network_namespace;         // a name under /var/run/netns; empty: stays in this one
  int output_fd = -1;  // takes what it writes to both of its outputs; -1: pipes of `Process`
  int processor = -1;  // the only one that it runs on; -1: it may choose
};

struct Process {
  pid_t pid = -1;
  // Read ends, non-blocking; none where the output goes elsewhere.
  Descriptor out;
  Descriptor err;
};

// Their numbers, of those that this process may run on; empty: the system does not tell.
std::vector<int> usable_processors();
// How many those are; 1 if the system does not tell.
unsigned usable_cores();

// Returns when the program runs; or says why it does not.
Result<Process> start_process(const ProcessOptions& options);

}  // namespace braid::cli
