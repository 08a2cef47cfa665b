// `braid study`: simulates all combinations of some settings.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand study_command();

}  // namespace braid::cli
