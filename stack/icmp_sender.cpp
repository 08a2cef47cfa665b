#include "stack/icmp_sender.h"

#include <optional>

#include "stack/icmp_packets.h"

namespace braid::stack {

// IC-1
void IcmpSender::answer_echo(Instant now, LinkId link, const Ipv4Packet& request, const IcmpMessage& echo) {
  OutgoingPacket* const packet = sender_.reserve();
  const std::optional<Ipv4Address> hop = next_hop(links_[link.value()], request.source);
  if (packet == nullptr || !hop) {
    ++counters_.echoes_dropped;
    return;
  }
  write_echo_reply(*packet, request, echo);
  packet->link = link;
  packet->next_hop = *hop;
  sender_.push(now, *packet);
  ++counters_.echoes_answered;
}

// IC-2
void IcmpSender::report_error(Instant now, LinkId link, const Ipv4Packet& about, IcmpType type,
                              std::uint8_t code) {
  if (is_icmp_error(about)) return;
  OutgoingPacket* const packet = sender_.reserve();
  const std::optional<Ipv4Address> hop = next_hop(links_[link.value()], about.source);
  if (packet == nullptr || !hop || !errors_.allow(now)) {
    ++counters_.errors_withheld;
    return;
  }
  write_icmp_error(*packet, about, type, code);
  packet->link = link;
  packet->next_hop = *hop;
  sender_.push(now, *packet);
  ++counters_.errors_sent;
}

}  // namespace braid::stack
