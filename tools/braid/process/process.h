// Starts programs, each at the head of its own process group and killed by the kernel
// when the command dies. child_processes.h manages those that run beside the command.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

// Namespaces that a process has been started in, and another one can enter.
struct Container {
  int pidfd = -1;      // of that process; -1: there is none
  int namespaces = 0;  // CLONE_NEWPID, CLONE_NEWUSER
};

struct ProcessOptions {
  std::string path;
  std::vector<std::string> arguments;      // argv, the name first
  std::vector<std::string> environment{};  // NAME=value
  int stdin_fd = -1;                       // -1: /dev/null
  std::vector<int> inherited{};            // stay open with the same numbers; all others from 3 on are closed
  std::string network_namespace{};         // a name under /var/run/netns; empty: stays in this one
  int output_fd = -1;  // takes what it writes to both of its outputs; -1: pipes of `Process`
  int stdout_fd = -1;  // the same for its standard output only
  int stderr_fd = -1;  // the same for its standard error only
  // Where ChildProcesses has a container, the process and all that come from it are in it: its process numbers are
  // others than those that are seen from outside.
  bool contained = true;
  Container container{};  // of ChildProcesses
  int processor = -1;     // the only one that it runs on; -1: it may choose
};

struct Process {
  pid_t pid = -1;
  // Read ends, non-blocking; each empty if that output is redirected.
  Descriptor out;
  Descriptor err;
};

// How many threads of this process run at the same time: as many as it may use processors, and as its cgroup's quota has
// whole ones. At least 1.
unsigned usable_cores();

// Returns when the program runs, or an error if it does not start.
Result<Process> start_process(const ProcessOptions& options);

struct FinishedProcess {
  int wait_status = 0;  // of waitpid(2)
  std::string out;      // its output
  std::string err;
};
// Runs a program to its end and blocks meanwhile; `options` must not redirect output. Error: no start.
Result<FinishedProcess> run_process(const ProcessOptions& options);

}  // namespace braid::cli
