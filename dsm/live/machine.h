// Joins a machine over a network of the caller's: what init() does after it has read the environment
// and reached the service. For programs that embed the runtime elsewhere, and for tests.
#pragma once

#include <memory>

#include "dsm/live/environment.h"
#include "dsm/live/network.h"

namespace braid::dsm {

// Then the calls of dsm/api.h work. `network` is null when environment.clusters is 1. Ends the process with a
// message when the others do not join in time. Initial thread, once.
void join_machine(const Environment& environment, std::unique_ptr<Network> network);

}  // namespace braid::dsm
