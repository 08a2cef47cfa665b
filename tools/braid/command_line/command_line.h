// Parses what the user gave, explains what there is, and runs the command that was named. CLI11 stays behind
// this header: it costs the compiler seconds in every file that includes it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

// What `braid help NAME` prints beside the commands' own texts.
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

// Returns the status of the process. Wrong usage ends it at once (refuse()).
int run_command_line(const CommandLine& line, int argc, char** argv);

}  // namespace braid::cli
