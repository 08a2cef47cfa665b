#include "stack/wire/icmp.h"

#include "base/check.h"
#include "stack/wire/checksum.h"

namespace braid::stack {
namespace {

//   0       1       2              4                             8
//   | type  | code  | checksum     | rest                        | body
constexpr std::size_t kCodeAt = 1;
constexpr std::size_t kChecksumAt = 2;
constexpr std::size_t kRestAt = 4;

}  // namespace

IcmpParse parse_icmp(ByteView bytes, IcmpMessage& out) {
  if (bytes.size() < kIcmpHeaderBytes) return IcmpParse::kTruncated;
  if (!checksum_is_right(checksum_add(0, bytes))) return IcmpParse::kBadChecksum;
  out.type = IcmpType{load<std::uint8_t>(bytes.data())};
  out.code = load<std::uint8_t>(bytes.data() + kCodeAt);
  out.rest = load_be<std::uint32_t>(bytes.data() + kRestAt);
  out.body = bytes.subspan(kIcmpHeaderBytes);
  return IcmpParse::kOk;
}

// The quoted header's own checksum and length may have been changed on the way by who quotes it; only the
// fields that we look for are read.
bool parse_icmp_quote(ByteView body, IcmpQuote& out) {
  if (body.size() < kIpv4HeaderBytes) return false;
  const std::byte* const p = body.data();
  const auto version_and_length = load<std::uint8_t>(p);
  const std::size_t header_bytes = (version_and_length & 0xfu) * 4;
  if (version_and_length >> 4 != 4 || header_bytes < kIpv4HeaderBytes) return false;
  if (body.size() < header_bytes + kIcmpQuotedPayloadBytes) return false;
  if ((load_be<std::uint16_t>(p + 6) & 0x1fff) != 0) return false;  // not the first fragment: no ports
  out.protocol = IpProtocol{load<std::uint8_t>(p + 9)};
  out.source = Ipv4Address::load(p + 12);
  out.destination = Ipv4Address::load(p + 16);
  out.source_port = load_be<std::uint16_t>(p + header_bytes);
  out.destination_port = load_be<std::uint16_t>(p + header_bytes + 2);
  return true;
}

std::size_t write_icmp(MutableBytes at, IcmpType type, std::uint8_t code, std::uint32_t rest,
                       std::uint64_t body_sum) {
  CHECK_GE(at.size(), kIcmpHeaderBytes);
  const auto head = static_cast<std::uint16_t>(static_cast<unsigned>(type) << 8 | code);
  std::byte* const p = at.data();
  store_be(p, head);
  store_be(p + kRestAt, rest);
  const std::uint64_t sum = checksum_combine(body_sum, std::uint64_t{swapped(head)} + swapped(rest));
  store(p + kChecksumAt, checksum_field(sum));
  return kIcmpHeaderBytes;
}

const char* to_string(Unreachable reason) {
  switch (reason) {
    case Unreachable::kNetwork:
      return "network unreachable";
    case Unreachable::kHost:
      return "host unreachable";
    case Unreachable::kProtocol:
      return "protocol unreachable";
    case Unreachable::kPort:
      return "port unreachable";
    case Unreachable::kTooBig:
      return "packets too long for a link on the way";
  }
  return "unreachable";
}

}  // namespace braid::stack
