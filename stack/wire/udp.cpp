#include "stack/wire/udp.h"

#include "base/check.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {
namespace {

//   0              2              4              6              8
//   | source port  | destination  | length       | checksum     | payload
constexpr std::size_t kDestinationPortAt = 2;
constexpr std::size_t kLengthAt = 4;
constexpr std::size_t kChecksumAt = 6;

constexpr std::uint16_t kNotComputed = 0;
// UDP-1: ones'-complement zero has two forms; this one says the same and is not kNotComputed.
constexpr std::uint16_t kComputedZero = 0xffff;

// Source, destination, zero, protocol, UDP length: never sent, always counted. Nothing to carry in 64 bits.
std::uint64_t pseudo_header_sum(Ipv4Address source, Ipv4Address destination, std::size_t udp_bytes) {
  constexpr auto kProtocol = static_cast<std::uint16_t>(IpProtocol::kUdp);
  return std::uint64_t{swapped(source.value())} + swapped(destination.value()) + swapped(kProtocol) +
         swapped(static_cast<std::uint16_t>(udp_bytes));
}

}  // namespace

UdpParse parse_udp(ByteView bytes, Ipv4Address source, Ipv4Address destination, UdpDatagram& out,
                   ChecksumBy checksum) {
  if (bytes.size() < kUdpHeaderBytes) return UdpParse::kTruncated;
  const std::byte* const p = bytes.data();
  const std::size_t length = load_be<std::uint16_t>(p + kLengthAt);
  if (length > bytes.size()) return UdpParse::kTruncated;
  if (length < bytes.size()) return UdpParse::kBadLength;
  const bool has_checksum = load<std::uint16_t>(p + kChecksumAt) != kNotComputed;
  if (has_checksum && checksum == ChecksumBy::kSoftware &&
      !checksum_is_right(checksum_add(pseudo_header_sum(source, destination, length), bytes))) {
    return UdpParse::kBadChecksum;
  }
  out.source_port = load_be<std::uint16_t>(p);
  out.destination_port = load_be<std::uint16_t>(p + kDestinationPortAt);
  out.has_checksum = has_checksum;
  out.payload = bytes.subspan(kUdpHeaderBytes);
  return UdpParse::kOk;
}

std::size_t write_udp(MutableBytes at, const UdpFields& fields, std::uint64_t payload_sum) {
  CHECK_GE(at.size(), kUdpHeaderBytes);
  CHECK_LE(fields.payload_bytes, kUdpMaxPayloadBytes);
  const auto length = static_cast<std::uint16_t>(kUdpHeaderBytes + fields.payload_bytes);
  // Summed from the fields: reading back what was just stored would wait for the stores.
  const std::uint64_t header_sum = pseudo_header_sum(fields.source, fields.destination, length) +
                                   swapped(fields.source_port) + swapped(fields.destination_port) +
                                   swapped(length);
  const std::uint16_t field = checksum_field(checksum_combine(header_sum, payload_sum));
  std::byte* const p = at.data();
  store_be(p, fields.source_port);
  store_be(p + kDestinationPortAt, fields.destination_port);
  store_be(p + kLengthAt, length);
  store(p + kChecksumAt, field == kNotComputed ? kComputedZero : field);
  return kUdpHeaderBytes;
}

}  // namespace braid::stack
