#include "stack/wire/arp.h"

#include "base/check.h"
#include "stack/wire/ethernet.h"

namespace braid::stack {
namespace {

//   0              2              4       5       6              8
//   | hardware = 1 | protocol     | 6     | 4     | operation    |
//   8                             14                  18                   24                  28
//   | sender's MAC                | sender's IPv4     | target's MAC       | target's IPv4     |
constexpr std::uint16_t kHardwareEthernet = 1;
constexpr std::size_t kProtocolAt = 2;
constexpr std::size_t kHardwareLengthAt = 4;
constexpr std::size_t kProtocolLengthAt = 5;
constexpr std::size_t kOperationAt = 6;
constexpr std::size_t kSenderMacAt = 8;
constexpr std::size_t kSenderIpAt = 14;
constexpr std::size_t kTargetMacAt = 18;
constexpr std::size_t kTargetIpAt = 24;

bool is_ipv4_over_ethernet(const std::byte* p) {
  return load_be<std::uint16_t>(p) == kHardwareEthernet &&
         load_be<std::uint16_t>(p + kProtocolAt) == static_cast<std::uint16_t>(EtherType::kIpv4) &&
         load<std::uint8_t>(p + kHardwareLengthAt) == MacAddress::kBytes &&
         load<std::uint8_t>(p + kProtocolLengthAt) == Ipv4Address::kBytes;
}

bool may_speak(const ArpPacket& packet) {
  const bool probe = packet.operation == ArpOperation::kRequest && packet.sender_ip.is_unspecified();
  return packet.sender_mac.is_unicast() && (packet.sender_ip.is_unicast() || probe);
}

}  // namespace

ArpParse parse_arp(ByteView bytes, ArpPacket& out) {
  if (bytes.size() < kArpBytes) return ArpParse::kTruncated;
  const std::byte* const p = bytes.data();
  if (!is_ipv4_over_ethernet(p)) return ArpParse::kOtherKind;

  ArpPacket packet;
  packet.operation = ArpOperation{load_be<std::uint16_t>(p + kOperationAt)};
  packet.sender_mac = MacAddress::load(p + kSenderMacAt);
  packet.sender_ip = Ipv4Address::load(p + kSenderIpAt);
  packet.target_mac = MacAddress::load(p + kTargetMacAt);
  packet.target_ip = Ipv4Address::load(p + kTargetIpAt);
  if (packet.operation != ArpOperation::kRequest && packet.operation != ArpOperation::kReply) {
    return ArpParse::kBadOperation;
  }
  if (!may_speak(packet)) return ArpParse::kBadSender;
  out = packet;
  return ArpParse::kOk;
}

std::size_t write_arp(MutableBytes at, const ArpPacket& packet) {
  CHECK_GE(at.size(), kArpBytes);
  std::byte* const p = at.data();
  store_be(p, kHardwareEthernet);
  store_be(p + kProtocolAt, static_cast<std::uint16_t>(EtherType::kIpv4));
  store(p + kHardwareLengthAt, static_cast<std::uint8_t>(MacAddress::kBytes));
  store(p + kProtocolLengthAt, static_cast<std::uint8_t>(Ipv4Address::kBytes));
  store_be(p + kOperationAt, static_cast<std::uint16_t>(packet.operation));
  packet.sender_mac.store(p + kSenderMacAt);
  packet.sender_ip.store(p + kSenderIpAt);
  packet.target_mac.store(p + kTargetMacAt);
  packet.target_ip.store(p + kTargetIpAt);
  return kArpBytes;
}

}  // namespace braid::stack
