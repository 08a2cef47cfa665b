// A plain UDP datagram (RFC 768) in a packet that is then queued.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "stack/outgoing.h"
#include "stack/remote.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::stack {

// From that port of packet.source. `payload` is at most kUdpMaxPayloadBytes, and is copied.
inline void write_datagram(OutgoingPacket& packet, std::uint16_t source_port, const Endpoint& to,
                           ByteView payload) {
  const MutableBytes room = packet.room();
  const std::uint64_t sum = copy_and_sum(room.data() + kUdpHeaderBytes, payload.data(), payload.size());
  write_udp(room,
            {.source = packet.source,
             .destination = to.address,
             .source_port = source_port,
             .destination_port = to.port,
             .payload_bytes = payload.size()},
            sum);
  packet.destination = to.address;
  packet.protocol = IpProtocol::kUdp;
  packet.type_of_service = 0;
  packet.bytes = static_cast<std::uint32_t>(kUdpHeaderBytes + payload.size());
}

}  // namespace braid::stack
