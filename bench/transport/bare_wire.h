// The wire with nothing on it but the message: what the wire itself costs.
#pragma once

#include <memory>

#include "bench/transport/system.h"
#include "proxy/nic/nic_queue.h"

namespace braid::bench {

std::unique_ptr<System> make_bare_wire(std::unique_ptr<proxy::NicQueue> queue);

}  // namespace braid::bench
