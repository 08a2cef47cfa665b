// `braid parmacs`: builds programs with ANL macros. bin/braid-parmacs, a script beside the command, does it.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

// For the list of commands and its help page; its words are the script's, so they never come through it.
Subcommand parmacs_command();
// Whether the command line is one of `braid parmacs`.
bool is_parmacs(int argc, char** argv);
// Runs the script in place of this process, with what follows `parmacs`; returns a status if it cannot.
int build_with_macros(char** argv);

}  // namespace braid::cli
