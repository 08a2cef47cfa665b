// `braid counters`: a node's counters while it runs, read from shared memory.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand counters_command();

}  // namespace braid::cli
