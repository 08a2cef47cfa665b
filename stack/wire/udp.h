// UDP headers (RFC 768) with the checksum over payload and pseudo header.
//
// To send, the payload is copied into the frame with copy_and_sum and its sum is given to write_udp: the
// payload is touched once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "stack/wire/addresses.h"
#include "stack/wire/checksum.h"

namespace braid::stack {

inline constexpr std::size_t kUdpHeaderBytes = 8;
inline constexpr std::size_t kUdpMaxPayloadBytes = 65535 - 20 - kUdpHeaderBytes;

struct UdpDatagram {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  // False when the sender computed no checksum (0 in the header): nothing vouches for the payload. Whoever
  // sends with write_udp always computes one.
  bool has_checksum = false;
  ByteView payload;
};

enum class UdpParse : std::uint8_t {
  kOk,
  kTruncated,  // shorter than a header, or than the length in it says
  kBadLength,  // the length in the header is less than the header, or less than what IP brought
  kBadChecksum,
};

// `bytes` is the payload of one whole IPv4 packet between these addresses. Reads nothing outside it; `out` is
// written when kOk, and points into `bytes`.
//
// The length must be exactly that of the IP payload: if bytes could be cut off the end, a damaged length
// could cut off just those that make the checksum right again.
[[nodiscard]] UdpParse parse_udp(ByteView bytes, Ipv4Address source, Ipv4Address destination,
                                 UdpDatagram& out, ChecksumBy checksum = ChecksumBy::kSoftware);

struct UdpFields {
  Ipv4Address source{};
  Ipv4Address destination{};
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::size_t payload_bytes = 0;  // kUdpMaxPayloadBytes at most
};

// Writes kUdpHeaderBytes to the front of `at`, which has room for them; returns their number. `payload_sum`
// is the sum (checksum_add, copy_and_sum) over the payload_bytes that follow the header.
std::size_t write_udp(MutableBytes at, const UdpFields& fields, std::uint64_t payload_sum);

}  // namespace braid::stack
