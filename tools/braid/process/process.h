// Starts programs, each at the head of a process group of its own and killed by the kernel when the command
// dies. child_processes.h looks after those that run beside the command.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

struct ProcessOptions {
  std::string path;
  std::vector<std::string> arguments;      // argv, the name first
  std::vector<std::string> environment{};  // NAME=value
  int stdin_fd = -1;                       // -1: /dev/null
  std::vector<int> inherited{};            // stay open, by the same numbers; all others from 3 on are closed
  std::string network_namespace{};         // a name under /var/run/netns; empty: stays in this one
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

struct FinishedProcess {
  int wait_status = 0;  // as waitpid(2) tells it
  std::string out;      // what it wrote
  std::string err;
};
// Runs a program to its end and blocks meanwhile; `options` leave its output to us. An error: it did not start.
Result<FinishedProcess> run_process(const ProcessOptions& options);

}  // namespace braid::cli
