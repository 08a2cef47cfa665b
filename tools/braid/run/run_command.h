// `braid run`: an application on clusters that live on this machine.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand run_command();

}  // namespace braid::cli
