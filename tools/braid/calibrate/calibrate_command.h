// `braid calibrate`: measures this machine, and writes it as a model for `braid sim`.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand calibrate_command();

}  // namespace braid::cli
