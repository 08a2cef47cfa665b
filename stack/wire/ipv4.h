// IPv4 headers (RFC 791), read with every check that a header allows, and written without options.
// Putting fragments together again is not done here: the parser hands over what is needed for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "stack/wire/addresses.h"
#include "stack/wire/checksum.h"

namespace braid::stack {

inline constexpr std::size_t kIpv4HeaderBytes = 20;  // as we write it
inline constexpr std::size_t kIpv4MaxHeaderBytes = 60;
inline constexpr std::size_t kIpv4MaxPacketBytes = 65535;

// Numbers that we know; a packet may carry any other.
enum class IpProtocol : std::uint8_t { kIcmp = 1, kTcp = 6, kUdp = 17 };

struct Ipv4Packet {
  Ipv4Address source{};
  Ipv4Address destination{};
  IpProtocol protocol{};
  std::uint8_t type_of_service = 0;  // DSCP in the upper six bits, ECN in the lower two
  std::uint8_t time_to_live = 0;
  bool dont_fragment = false;
  bool more_fragments = false;
  std::uint16_t identification = 0;
  std::uint16_t fragment_offset_bytes = 0;
  ByteView header;   // options included
  ByteView payload;  // without Ethernet's padding

  constexpr bool is_fragment() const { return more_fragments || fragment_offset_bytes != 0; }
};

enum class Ipv4Parse : std::uint8_t {
  kOk,                // a whole packet
  kFragment,          // a right packet that is a piece of a larger one; `out` is written
  kTruncated,         // less there than a header, or than the packet's own length says
  kBadVersion,        // not 4
  kBadHeaderLength,   // IHL less than 5 words
  kBadTotalLength,    // less than the header
  kBadChecksum,       // of the header
  kTimeToLiveIsOver,  // 0 arrived
  kBadFragment,  // a piece that fits into no packet: past 65535 bytes, or not the last and no multiple of 8
};

// `bytes` is the frame's payload. Reads nothing outside it; `out` is written when kOk or kFragment, and
// points into `bytes`. Options are skipped. Addresses are not judged.
[[nodiscard]] Ipv4Parse parse_ipv4(ByteView bytes, Ipv4Packet& out,
                                   ChecksumBy checksum = ChecksumBy::kSoftware);

struct Ipv4Fields {
  Ipv4Address source{};
  Ipv4Address destination{};
  IpProtocol protocol = IpProtocol::kUdp;
  std::size_t payload_bytes = 0;  // kIpv4MaxPacketBytes - kIpv4HeaderBytes at most
  std::uint8_t type_of_service = 0;
  std::uint8_t time_to_live = 64;  // what RFC 1700 recommends
  bool dont_fragment = true;       // segments fit the MTU; a router that would cut one shall say so instead
  bool more_fragments = false;
  std::uint16_t identification = 0;         // matters only where fragments are allowed (RFC 6864)
  std::uint16_t fragment_offset_bytes = 0;  // a multiple of 8
};

// Writes kIpv4HeaderBytes, checksum included, to the front of `at`, which has room for them; returns their
// number.
std::size_t write_ipv4(MutableBytes at, const Ipv4Fields& fields);

}  // namespace braid::stack
