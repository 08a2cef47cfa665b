// UDP sockets over loopback: sendmmsg and recvmmsg of 64 one way, polling there and back.
#pragma once

#include <memory>

#include "bench/transport/system.h"

namespace braid::bench {

// Waits until the other process has made its own.
std::unique_ptr<System> make_kernel_udp(Shared& shared, bool near);

}  // namespace braid::bench
