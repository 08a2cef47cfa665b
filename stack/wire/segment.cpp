#include "stack/wire/segment.h"

namespace braid::stack {
namespace {

constexpr std::uint8_t kAckAtOnce = 0x80;  // beside the number of sack words

}  // namespace

std::size_t write_packet_header(std::byte* to, const PacketHeader& h) {
  store(to, kWireVersion);
  store(to + 1, static_cast<std::uint8_t>(h.type));
  store(to + 2, h.records);
  store(to + 3, static_cast<std::uint8_t>(h.sack_words | (h.ack_at_once ? kAckAtOnce : 0)));
  store(to + 4, h.source.cluster.value());
  store(to + 6, h.source.proxy.value());
  store(to + 7, h.destination.proxy.value());
  store(to + 8, h.destination.cluster.value());
  store(to + 10, h.ack_held);
  store(to + 12, h.sender_epoch);
  store(to + 20, h.receiver_epoch);
  store(to + 28, h.seq.value());
  store(to + 32, h.ack.value());
  store(to + 36, h.timestamp);
  store(to + 40, h.timestamp_echo);
  store(to + 44, h.window_packets);
  store(to + 46, h.window_units);
  for (std::size_t w = 0; w < h.sack_words; ++w) store(to + kPacketHeaderBytes + 8 * w, h.sack[w]);
  return kPacketHeaderBytes + 8u * h.sack_words;
}

bool parse_packet_header(ByteView payload, PacketHeader* h, std::size_t* header_bytes) {
  if (payload.size() < kPacketHeaderBytes) return false;
  const std::byte* p = payload.data();
  if (load<std::uint8_t>(p) != kWireVersion) return false;
  const auto type = load<std::uint8_t>(p + 1);
  if (type < 1 || type > 5) return false;
  h->type = static_cast<PacketType>(type);
  h->records = load<std::uint8_t>(p + 2);
  const auto words = load<std::uint8_t>(p + 3);
  h->ack_at_once = (words & kAckAtOnce) != 0;
  h->sack_words = static_cast<std::uint8_t>(words & ~kAckAtOnce);
  if (h->sack_words > kMaxSackWords) return false;
  *header_bytes = kPacketHeaderBytes + 8u * h->sack_words;
  if (payload.size() < *header_bytes) return false;
  h->source = {ClusterId(load<std::uint16_t>(p + 4)), ProxyId(load<std::uint8_t>(p + 6))};
  h->destination = {ClusterId(load<std::uint16_t>(p + 8)), ProxyId(load<std::uint8_t>(p + 7))};
  h->ack_held = load<std::uint16_t>(p + 10);
  h->sender_epoch = load<std::uint64_t>(p + 12);
  h->receiver_epoch = load<std::uint64_t>(p + 20);
  h->seq = Seq(load<std::uint32_t>(p + 28));
  h->ack = Seq(load<std::uint32_t>(p + 32));
  h->timestamp = load<std::uint32_t>(p + 36);
  h->timestamp_echo = load<std::uint32_t>(p + 40);
  h->window_packets = load<std::uint16_t>(p + 44);
  h->window_units = load<std::uint16_t>(p + 46);
  for (std::size_t w = 0; w < h->sack_words; ++w)
    h->sack[w] = load<std::uint64_t>(p + kPacketHeaderBytes + 8 * w);
  return true;
}

}  // namespace braid::stack
