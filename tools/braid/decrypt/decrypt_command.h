// `braid decrypt`: opens the sealed packets of a capture with the keys of its run (docs/SECURITY.md, Reading captures).
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand decrypt_command();

}  // namespace braid::cli
