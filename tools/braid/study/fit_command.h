// `braid fit`: fits a cost model to targets, and predicts with it.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand fit_command();

}  // namespace braid::cli
