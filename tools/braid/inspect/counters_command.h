// `braid counters`: a node's counters while it runs, read from its memory without its help.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand counters_command();

}  // namespace braid::cli
