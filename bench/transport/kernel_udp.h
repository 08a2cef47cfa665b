// UDP sockets over loopback: sendmmsg and recvmmsg of 64 one way, polling there and back.
#pragma once

#include <memory>

#include "bench/transport/system.h"

namespace braid::bench {

enum class KernelUdp : std::uint8_t {
  kAlone,   // a datagram for each message
  kJoined,  // as many as the kernel cuts (UDP_SEGMENT) and joins (UDP_GRO) in one
};

// `shared` is the two sides'; only kernel_port is used here. Waits until the other process has made its own.
std::unique_ptr<System> make_kernel_udp(Shared& shared, bool near, KernelUdp kind);

}  // namespace braid::bench
