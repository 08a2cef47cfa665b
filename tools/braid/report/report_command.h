// `braid report`: results of studies and runs as one page to look at.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand report_command();

}  // namespace braid::cli
