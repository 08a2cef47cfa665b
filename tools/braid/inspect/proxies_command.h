// `braid proxies`: how many proxies of a running cluster serve its clients, and changing that.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand proxies_command();

}  // namespace braid::cli
