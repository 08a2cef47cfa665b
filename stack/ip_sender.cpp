#include "stack/ip_sender.h"

#include <bit>

#include "base/ethernet.h"

namespace braid::stack {

IpSender::IpSender(std::span<const Interface> links, const IpSenderConfig& config)
    : links_(links),
      config_(config),
      queue_(config.queued_packets),
      handover_room_(config.mtu_bytes + kEthernetHeaderBytes) {
  if (!config.long_packets) return;
  long_.resize(links.size());
  long_memory_ = std::make_unique_for_overwrite<std::byte[]>(long_.size() * kIpv4MaxPacketBytes);
  for (std::size_t i = 0; i < long_.size(); ++i)
    long_[i].packet.payload = long_memory_.get() + i * kIpv4MaxPacketBytes;
}

// IP-4: the proxies of a node share its addresses, so each has numbers of its own.
std::uint16_t IpSender::next_identification() {
  identification_ = static_cast<std::uint16_t>(identification_ + std::bit_ceil(config_.proxies));
  return identification_;
}

// IP-3
std::size_t IpSender::write_frame(OutgoingPacket& packet, const MacAddress& to, MutableBytes room) {
  const bool first = packet.left == 0;
  const std::size_t length =
      write_next_frame(packet, to, links_[packet.link.value()].mac, config_.mtu_bytes, room);
  if (!first || !packet.done()) {
    ++counters_.fragments_sent;
    counters_.packets_fragmented += first ? 1 : 0;
  }
  return length;
}

void IpSender::push(Instant now, OutgoingPacket& packet) {
  packet.until = now + config_.arp_timeout;
  packet.identification = next_identification();
  queue_.push(packet);
}

// ARP-1
std::size_t IpSender::transmit_queued(Instant now, LinkId link, Neighbours& neighbours, MutableBytes room) {
  std::size_t length = 0;
  queue_.visit([&](OutgoingPacket& packet) {
    if (packet.link != link) return false;
    const std::optional<MacAddress> to = neighbours.lookup(link, packet.next_hop, now);
    packet.unresolved = !to;
    if (to) {
      length = write_frame(packet, *to, room);
    } else if (packet.until <= now) {
      ++counters_.dropped;
      packet.left = packet.bytes;
    }
    return length > 0;
  });
  return length;
}

std::size_t IpSender::begin_long(LinkId link, const MacAddress& to, Ipv4Address destination,
                                 std::size_t bytes, MutableBytes room) {
  Long& l = long_[link.value()];
  OutgoingPacket& packet = l.packet;
  packet.link = link;
  packet.source = links_[link.value()].address;
  packet.destination = destination;
  packet.protocol = IpProtocol::kUdp;
  packet.identification = next_identification();
  packet.bytes = static_cast<std::uint32_t>(bytes);
  packet.left = 0;
  l.to = to;
  const std::size_t length = write_frame(packet, to, room);
  unfinished_ += packet.done() ? 0 : 1;
  return length;
}

std::size_t IpSender::transmit_long(LinkId link, MutableBytes room) {
  if (unfinished_ == 0) return 0;
  Long& l = long_[link.value()];
  if (l.packet.done()) return 0;
  const std::size_t length = write_frame(l.packet, l.to, room);
  unfinished_ -= l.packet.done() ? 1 : 0;
  return length;
}

void IpSender::begin_handover(const Ipv4Packet& whole) {
  handover_.source = whole.source;
  handover_.destination = whole.destination;
  handover_.protocol = whole.protocol;
  handover_.type_of_service = whole.type_of_service;
  handover_.identification = whole.identification;
  handover_.payload = const_cast<std::byte*>(whole.payload.data());  // read only
  handover_.bytes = static_cast<std::uint32_t>(whole.payload.size());
  handover_.left = 0;
}

ByteView IpSender::next_handover(LinkId link) {
  if (handover_.done()) return {};
  const MacAddress& own = links_[link.value()].mac;
  return ByteView(handover_room_)
      .first(write_next_frame(handover_, own, own, config_.mtu_bytes, handover_room_));
}

Instant IpSender::next_deadline() const {
  return unfinished_ > 0 ? Instant() : queue_.next_deadline();
}

}  // namespace braid::stack
