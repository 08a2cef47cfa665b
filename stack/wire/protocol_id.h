// Which protocol a record belongs to (PS-1): protocols stand side by side, and each record names its own.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace braid::stack {

// 0 is no protocol's.
using ProtocolId = Id<struct ProtocolTag, std::uint8_t>;

inline constexpr ProtocolId kMessages{1};      // parallel connections of programs
inline constexpr ProtocolId kSharedMemory{2};  // the page protocol's parallel connections
inline constexpr ProtocolId kDatagrams{3};     // messages without a connection
inline constexpr ProtocolId kControl{4};       // between control planes
// From here on they are free for protocols that are not Braid's own.
inline constexpr ProtocolId kFirstFreeProtocol{64};

}  // namespace braid::stack
