// The size of the Ethernet header, also for code that handles frames
// without reading the header (stack/wire/ethernet.h reads and writes it).
#pragma once

#include <cstdint>

namespace braid {

// IEEE 802.3: two addresses and a type; no preamble, no frame check sequence.
inline constexpr std::uint32_t kEthernetHeaderBytes = 14;

}  // namespace braid
