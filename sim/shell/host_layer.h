// A layer between the program's calls and the shell, for programs that are linked with one.
#pragma once

#include <memory>

#include "dsm/program/host.h"

namespace braid::sim {

using HostLayer = std::unique_ptr<dsm::Host> (*)(std::unique_ptr<dsm::Host> shell);

// Set before main(): init() passes the shell through it. nullptr: no layer.
extern HostLayer host_layer;

}  // namespace braid::sim
