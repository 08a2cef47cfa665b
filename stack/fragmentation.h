// Who cuts what is longer than the MTU: a choice of the configuration that both ends of a sub-connection
// share.
#pragma once

#include <cstdint>

namespace braid::stack {

enum class Fragmentation : std::uint8_t {
  kTransport,  // the sub-connection: its packets fit the MTU, and a lost frame costs one of them
  kIp,         // IP, as in the paper: a packet holds a whole piece, and a lost fragment costs all of it
};

}  // namespace braid::stack
