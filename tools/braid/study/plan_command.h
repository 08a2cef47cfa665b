// `braid plan`: recommends proxies, NIs and dispatch for a program, by simulations.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand plan_command();

}  // namespace braid::cli
