// `braid proxies`: shows or changes how many proxies of a running cluster serve its clients.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand proxies_command();

}  // namespace braid::cli
