#include "stack/wire/segment.h"

namespace braid::stack {
namespace {

void write_stack_id(std::byte* to, StackId id) {
  store(to, id.cluster.value());
  store(to + 2, id.proxy.value());
  store(to + 3, std::uint8_t{0});
}
StackId read_stack_id(const std::byte* from) {
  return {ClusterId(load<std::uint16_t>(from)), ProxyId(load<std::uint8_t>(from + 2))};
}

}  // namespace

std::size_t write_packet_header(std::byte* to, const PacketHeader& h) {
  store(to, kWireVersion);
  store(to + 1, static_cast<std::uint8_t>(h.type));
  store(to + 2, h.records);
  store(to + 3, h.sack_words);
  write_stack_id(to + 4, h.source);
  write_stack_id(to + 8, h.destination);
  store(to + 12, h.sender_epoch);
  store(to + 20, h.receiver_epoch);
  store(to + 28, h.seq.value());
  store(to + 32, h.ack.value());
  store(to + 36, h.timestamp);
  store(to + 40, h.timestamp_echo);
  for (std::size_t w = 0; w < h.sack_words; ++w) store(to + kPacketHeaderBytes + 8 * w, h.sack[w]);
  return kPacketHeaderBytes + 8u * h.sack_words;
}

bool parse_packet_header(ByteView payload, PacketHeader* h, std::size_t* header_bytes) {
  if (payload.size() < kPacketHeaderBytes) return false;
  const std::byte* p = payload.data();
  if (load<std::uint8_t>(p) != kWireVersion) return false;
  const auto type = load<std::uint8_t>(p + 1);
  if (type < 1 || type > 4) return false;
  h->type = static_cast<PacketType>(type);
  h->records = load<std::uint8_t>(p + 2);
  h->sack_words = load<std::uint8_t>(p + 3);
  if (h->sack_words > kMaxSackWords) return false;
  *header_bytes = kPacketHeaderBytes + 8u * h->sack_words;
  if (payload.size() < *header_bytes) return false;
  h->source = read_stack_id(p + 4);
  h->destination = read_stack_id(p + 8);
  h->sender_epoch = load<std::uint64_t>(p + 12);
  h->receiver_epoch = load<std::uint64_t>(p + 20);
  h->seq = Seq(load<std::uint32_t>(p + 28));
  h->ack = Seq(load<std::uint32_t>(p + 32));
  h->timestamp = load<std::uint32_t>(p + 36);
  h->timestamp_echo = load<std::uint32_t>(p + 40);
  for (std::size_t w = 0; w < h->sack_words; ++w)
    h->sack[w] = load<std::uint64_t>(p + kPacketHeaderBytes + 8 * w);
  return true;
}

}  // namespace braid::stack
