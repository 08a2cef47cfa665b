// `braid sim`: an application on a simulated machine.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand sim_command();

}  // namespace braid::cli
