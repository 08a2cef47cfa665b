// `braid secret`: makes the secret of nodes that are started by hand (docs/SECURITY.md).
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand secret_command();

}  // namespace braid::cli
