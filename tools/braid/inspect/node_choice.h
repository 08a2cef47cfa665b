// Which running node a command is about, as the user names it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

struct NodeChoice {
  int cluster = -1;
  std::string service;
  int process = 0;

  // --service, --process and --cluster. They point into this object.
  std::vector<Option> options();
  // The address of its control socket; wrong usage ends `command`.
  std::string address(const char* command) const;
};

// The control socket that an application process was told, from its environment.
Result<std::string> service_of_process(int pid);
// The control socket of the only cluster with that number that this user runs on this machine, found through
// its application processes.
Result<std::string> service_of_cluster(unsigned cluster);

}  // namespace braid::cli
