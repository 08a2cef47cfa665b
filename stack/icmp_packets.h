// The ICMP messages that a stack sends (RFC 792, RFC 1122): what they say, in a packet that is then queued.
#pragma once

#include <cstdint>

#include "stack/outgoing.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {

// The answer to an echo request that arrived in `request`. IC-1
void write_echo_reply(OutgoingPacket& packet, const Ipv4Packet& request, const IcmpMessage& echo);
// The complaint about a packet that came to us alone from one host. IC-2
void write_icmp_error(OutgoingPacket& packet, const Ipv4Packet& about, IcmpType type, std::uint8_t code);
// No complaint is made about a packet that is one (RFC 1122, 3.2.2).
bool is_icmp_error(const Ipv4Packet& packet);

}  // namespace braid::stack
