// `braid run --show-plan`: who would run where, on every host.
#pragma once

#include "tools/braid/run/supervisor.h"

namespace braid::cli {

// Prints it and starts nothing but a braid-node on each host that is not this machine, which is asked. Returns the status of the
// command; a host that does not answer ends it (refuse()).
int show_plan(const RunOptions& options);

// braid-node's part: answers the question that comes by standard input. Returns its status.
int serve_plan();

}  // namespace braid::cli
