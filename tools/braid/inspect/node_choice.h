// Finds the running node that the user names.
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

  // Declares --service, --process and --cluster. They point into this object.
  std::vector<Option> options();
  // Returns the address of its control socket; wrong usage ends `command`.
  std::string address(const char* command) const;
};

// The control socket that an application process uses, from its environment.
Result<std::string> service_of_process(int pid);
// The control socket of the user's only cluster with that
// number on this host, found through its application processes.
Result<std::string> service_of_cluster(unsigned cluster);

}  // namespace braid::cli
