// A connection from cluster 0 to cluster 1 of a virtual world, with room for as much as a path of 10 Gb/s has in flight.
#pragma once

#include <memory>

#include "tests/proxy/machine.h"
#include "tests/proxy/virtual_world.h"

namespace braid::proxy::test {

struct WideConnection {
  explicit WideConnection(VirtualWorld& world) {
    ClientOptions large;
    large.receive_bytes = 16u << 20;
    large.send_bytes = 4u << 20;
    a = world.client(0, large);
    b = world.client(1, large);
    ConnectionOptions options;
    options.window_bytes = 8u << 20;
    pair = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), PortId(9), options);
  }
  std::unique_ptr<Client> a, b;
  Pair pair;
};

}  // namespace braid::proxy::test
