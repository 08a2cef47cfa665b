// Joins a machine otherwise than by init(): over a network of the caller's, for programs that embed the runtime elsewhere
// and for tests, or with compute nodes for threads that are still to come.
#pragma once

#include <memory>

#include "dsm/live/environment.h"
#include "dsm/live/network.h"

namespace braid::dsm {

// Then the calls of dsm/api.h work. `network` is null when environment.clusters is 1. Ends the process with a
// message when the others do not join in time. Initial thread, once.
void join_machine(const Environment& environment, std::unique_ptr<Network> network);

// init() for a program whose own threads become compute nodes (Host::start_node()): each cluster has `nodes`, or more if
// the environment says so, and as many as that says compute at the same time.
void init_for_threads(unsigned nodes);

}  // namespace braid::dsm
