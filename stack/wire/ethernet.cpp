#include "stack/wire/ethernet.h"

#include "base/check.h"

namespace braid::stack {
namespace {

//   0              6              12        14
//   | destination  | source       | type    | payload
constexpr std::size_t kSourceAt = 6;
constexpr std::size_t kTypeAt = 12;

}  // namespace

EthernetParse parse_ethernet(ByteView frame, EthernetFrame& out) {
  if (frame.size() < kEthernetHeaderBytes) return EthernetParse::kTruncated;
  out.destination = MacAddress::load(frame.data());
  out.source = MacAddress::load(frame.data() + kSourceAt);
  out.type = EtherType{load_be<std::uint16_t>(frame.data() + kTypeAt)};
  out.payload = frame.subspan(kEthernetHeaderBytes);
  return EthernetParse::kOk;
}

std::size_t write_ethernet(MutableBytes at, const MacAddress& destination, const MacAddress& source,
                           EtherType type) {
  CHECK_GE(at.size(), kEthernetHeaderBytes);
  destination.store(at.data());
  source.store(at.data() + kSourceAt);
  store_be(at.data() + kTypeAt, static_cast<std::uint16_t>(type));
  return kEthernetHeaderBytes;
}

}  // namespace braid::stack
