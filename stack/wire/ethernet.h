// Ethernet II frames as they lie in a NIC's buffer: no preamble, no frame check sequence.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ethernet.h"
#include "stack/wire/addresses.h"

namespace braid::stack {

// Without the frame check sequence; shorter ones are padded by who puts them on a real wire.
inline constexpr std::size_t kEthernetMinFrameBytes = 60;

// Values of the type field that we know. A view may carry any other; values below 0x0600 are lengths of
// 802.3.
enum class EtherType : std::uint16_t {
  kIpv4 = 0x0800,
  kArp = 0x0806,
};

struct EthernetFrame {
  MacAddress destination;
  MacAddress source;
  EtherType type{};
  ByteView payload;  // may end in padding
};

enum class EthernetParse : std::uint8_t {
  kOk,
  kTruncated,  // shorter than a header
};

// Reads nothing outside `frame`; `out` is written when kOk, and points into `frame`.
[[nodiscard]] EthernetParse parse_ethernet(ByteView frame, EthernetFrame& out);

// Writes kEthernetHeaderBytes to the front of `at`, which has room for them; returns their number.
std::size_t write_ethernet(MutableBytes at, const MacAddress& destination, const MacAddress& source,
                           EtherType type);

}  // namespace braid::stack
