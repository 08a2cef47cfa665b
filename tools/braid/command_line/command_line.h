// Parses the command line, prints help, and runs the named command. CLI11 is included
// only behind this header: it costs the compiler seconds in every file that includes it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

// Further topics of `braid help NAME`, beside the commands.
struct Topic {
  std::string name;
  std::function<std::string()> text;
};

struct CommandLine {
  std::string about;
  std::string footer;
  std::string version;
  std::vector<Subcommand> commands;  // in the order of the help
  std::vector<Topic> topics = {};
};

// Returns the status of the process. Wrong usage ends the process (refuse()).
int run_command_line(const CommandLine& line, int argc, char** argv);

}  // namespace braid::cli
