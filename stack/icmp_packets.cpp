#include "stack/icmp_packets.h"

#include <algorithm>
#include <cstring>

#include "stack/wire/checksum.h"

namespace braid::stack {

void write_echo_reply(OutgoingPacket& packet, const Ipv4Packet& request, const IcmpMessage& echo) {
  const MutableBytes room = packet.room();
  const std::uint64_t sum = copy_and_sum(room.data() + kIcmpHeaderBytes, echo.body.data(), echo.body.size());
  write_icmp(room, IcmpType::kEchoReply, 0, echo.rest, sum);
  packet.source = request.destination;
  packet.destination = request.source;
  packet.protocol = IpProtocol::kIcmp;
  packet.type_of_service = request.type_of_service;
  packet.bytes = static_cast<std::uint32_t>(kIcmpHeaderBytes + echo.body.size());
}

void write_icmp_error(OutgoingPacket& packet, const Ipv4Packet& about, IcmpType type, std::uint8_t code) {
  const MutableBytes room = packet.room();
  const MutableBytes body = room.subspan(kIcmpHeaderBytes);
  const std::size_t quoted = std::min(about.payload.size(), kIcmpQuotedPayloadBytes);
  std::memcpy(body.data(), about.header.data(), about.header.size());
  std::memcpy(body.data() + about.header.size(), about.payload.data(), quoted);
  const std::size_t body_bytes = about.header.size() + quoted;
  write_icmp(room, type, code, 0, checksum_add(0, body.first(body_bytes)));
  packet.source = about.destination;
  packet.destination = about.source;
  packet.protocol = IpProtocol::kIcmp;
  packet.type_of_service = 0;
  packet.bytes = static_cast<std::uint32_t>(kIcmpHeaderBytes + body_bytes);
}

bool is_icmp_error(const Ipv4Packet& packet) {
  return packet.protocol == IpProtocol::kIcmp && !packet.payload.empty() &&
         is_error(IcmpType{load<std::uint8_t>(packet.payload.data())});
}

}  // namespace braid::stack
