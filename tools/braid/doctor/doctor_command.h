// `braid doctor`: tries what runs need on this host, or on several and between them, and says what to change.
#pragma once

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

Subcommand doctor_command();

}  // namespace braid::cli
