#include "stack/wire/ipv4.h"

#include <array>

#include "base/check.h"

namespace braid::stack {
namespace {

//   0       1       2              4              6              8       9       10
//   |ver|IHL| ToS   | total length | identific.   |flags| offset | TTL   | proto.| checksum     |
//   12                             16                            20
//   | source                       | destination                 | options ...
constexpr std::size_t kTypeOfServiceAt = 1;
constexpr std::size_t kTotalLengthAt = 2;
constexpr std::size_t kIdentificationAt = 4;
constexpr std::size_t kFragmentAt = 6;
constexpr std::size_t kTimeToLiveAt = 8;
constexpr std::size_t kProtocolAt = 9;
constexpr std::size_t kChecksumAt = 10;
constexpr std::size_t kSourceAt = 12;
constexpr std::size_t kDestinationAt = 16;

constexpr std::uint8_t kVersion = 4;
constexpr std::size_t kWordBytes = 4;
constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::uint16_t kMoreFragments = 0x2000;
constexpr std::uint16_t kOffsetMask = 0x1fff;
constexpr std::size_t kFragmentUnitBytes = 8;

// Two halves of a header's word, as they lie on the wire.
constexpr std::uint32_t word(std::uint16_t first, std::uint16_t second) {
  return swapped(std::uint32_t{first} << 16 | second);
}

// Five words: nothing to carry.
std::uint64_t sum_without_options(const std::byte* header) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < kIpv4HeaderBytes; at += kWordBytes) sum += load<std::uint32_t>(header + at);
  return sum;
}

std::uint64_t header_sum(ByteView header) {
  const std::uint64_t sum = sum_without_options(header.data());
  return header.size() == kIpv4HeaderBytes ? sum : checksum_add(sum, header.subspan(kIpv4HeaderBytes));
}

bool fits_into_a_packet(const Ipv4Packet& fragment) {
  const std::size_t end = kIpv4HeaderBytes + fragment.fragment_offset_bytes + fragment.payload.size();
  if (end > kIpv4MaxPacketBytes) return false;
  if (!fragment.more_fragments) return true;
  return !fragment.payload.empty() && fragment.payload.size() % kFragmentUnitBytes == 0;
}

void read_fixed_fields(const std::byte* p, Ipv4Packet& out) {
  const auto fragment = load_be<std::uint16_t>(p + kFragmentAt);
  out.type_of_service = load<std::uint8_t>(p + kTypeOfServiceAt);
  out.identification = load_be<std::uint16_t>(p + kIdentificationAt);
  out.dont_fragment = (fragment & kDontFragment) != 0;
  out.more_fragments = (fragment & kMoreFragments) != 0;
  out.fragment_offset_bytes = static_cast<std::uint16_t>((fragment & kOffsetMask) * kFragmentUnitBytes);
  out.time_to_live = load<std::uint8_t>(p + kTimeToLiveAt);
  out.protocol = IpProtocol{load<std::uint8_t>(p + kProtocolAt)};
  out.source = Ipv4Address::load(p + kSourceAt);
  out.destination = Ipv4Address::load(p + kDestinationAt);
}

}  // namespace

Ipv4Parse parse_ipv4(ByteView bytes, Ipv4Packet& out, ChecksumBy checksum) {
  if (bytes.size() < kIpv4HeaderBytes) return Ipv4Parse::kTruncated;
  const std::byte* const p = bytes.data();
  const auto version_and_length = load<std::uint8_t>(p);
  if (version_and_length >> 4 != kVersion) return Ipv4Parse::kBadVersion;
  const std::size_t header_bytes = (version_and_length & 0xf) * kWordBytes;
  if (header_bytes < kIpv4HeaderBytes) return Ipv4Parse::kBadHeaderLength;
  if (header_bytes > bytes.size()) return Ipv4Parse::kTruncated;
  // Before the checksum is known to be right no other field is worth believing.
  const ByteView header = bytes.first(header_bytes);
  if (checksum == ChecksumBy::kSoftware && !checksum_is_right(header_sum(header)))
    return Ipv4Parse::kBadChecksum;
  const std::size_t total_bytes = load_be<std::uint16_t>(p + kTotalLengthAt);
  if (total_bytes < header_bytes) return Ipv4Parse::kBadTotalLength;
  if (total_bytes > bytes.size()) return Ipv4Parse::kTruncated;
  if (load<std::uint8_t>(p + kTimeToLiveAt) == 0) return Ipv4Parse::kTimeToLiveIsOver;

  Ipv4Packet packet;
  read_fixed_fields(p, packet);
  packet.header = header;
  packet.payload = bytes.subspan(header_bytes, total_bytes - header_bytes);
  if (packet.is_fragment() && !fits_into_a_packet(packet)) return Ipv4Parse::kBadFragment;
  out = packet;
  return packet.is_fragment() ? Ipv4Parse::kFragment : Ipv4Parse::kOk;
}

std::size_t write_ipv4(MutableBytes at, const Ipv4Fields& fields) {
  CHECK_GE(at.size(), kIpv4HeaderBytes);
  CHECK_LE(fields.payload_bytes, kIpv4MaxPacketBytes - kIpv4HeaderBytes);
  CHECK_EQ(fields.fragment_offset_bytes % kFragmentUnitBytes, 0u);
  const auto fragment = static_cast<std::uint16_t>((fields.dont_fragment ? kDontFragment : 0) |
                                                   (fields.more_fragments ? kMoreFragments : 0) |
                                                   (fields.fragment_offset_bytes / kFragmentUnitBytes));
  const std::array<std::uint32_t, 5> words = {
      word(static_cast<std::uint16_t>((kVersion << 4 | kIpv4HeaderBytes / kWordBytes) << 8 |
                                      fields.type_of_service),
           static_cast<std::uint16_t>(kIpv4HeaderBytes + fields.payload_bytes)),
      word(fields.identification, fragment),
      word(static_cast<std::uint16_t>(fields.time_to_live << 8 | static_cast<std::uint8_t>(fields.protocol)),
           0),
      swapped(fields.source.value()),
      swapped(fields.destination.value()),
  };
  // Summed before they are stored: loads wider than the stores before them would wait for those.
  std::uint64_t sum = 0;
  for (const std::uint32_t w : words) sum += w;
  std::memcpy(at.data(), words.data(), kIpv4HeaderBytes);
  store(at.data() + kChecksumAt, checksum_field(sum));
  return kIpv4HeaderBytes;
}

}  // namespace braid::stack
