// A TCP connection over loopback: one send() for each message, without Nagle's delay.
#pragma once

#include <memory>

#include "bench/transport/system.h"

namespace braid::bench {

// Waits until the other process has made its own.
std::unique_ptr<System> make_kernel_tcp(Shared& shared, bool near);

}  // namespace braid::bench
