// Inputs that know the structure of what they carry: packets, frames, requests and page engines' messages whose checksums
// are right and whose lengths are right or wrong by one, with numbers that are likely to be limits.
//
// A fuzzer's input is a list of operations without borders. custom_mutation() either leaves the input to libFuzzer, or
// inserts an operation that the fuzzer makes of these parts, at the beginning of an operation or anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"
#include "dsm/engine/messages.h"
#include "proxy/channel/control.h"
#include "stack/wire/segment.h"
#include "tests/fuzz/arena.h"
#include "tests/fuzz/udp_frame.h"

// libFuzzer's own mutations; replay.cpp, which has none, defines it too.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace braid::fuzz {

// Draws what a mutation consists of.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : prng_(seed) {}

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(prng_.below(n)); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  // Small, at a limit, or any.
  template <class T>
  T number() {
    constexpr T kMax = static_cast<T>(~T{0});
    switch (below(6)) {
      case 0:
        return static_cast<T>(below(4));
      case 1:
        return static_cast<T>(kMax - below(3));
      case 2:
        return static_cast<T>((std::uint64_t{1} << below(8 * sizeof(T))) - below(2));
      case 3:
        return static_cast<T>(prng_.next());
      default:
        return static_cast<T>(below(64));
    }
  }
  // A length that is right, mostly, or wrong by one.
  template <class T>
  T length(T right) {
    switch (below(8)) {
      case 0:
        return static_cast<T>(right + 1);
      case 1:
        return static_cast<T>(right - 1);
      default:
        return right;
    }
  }
  std::vector<std::byte> bytes(std::size_t count) {
    std::vector<std::byte> made(count);
    for (std::byte& b : made) b = static_cast<std::byte>(prng_.next());
    return made;
  }

 private:
  Prng prng_;
};

// An input as it is written: the numbers that a fuzzer's Input reads, in their order.
class Writer {
 public:
  template <class T>
  Writer& number(T n) {
    std::byte raw[sizeof(T)];
    store(raw, n);
    return bytes(raw);
  }
  Writer& byte(std::uint32_t n) { return number(static_cast<std::uint8_t>(n)); }
  Writer& bytes(ByteView more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  // As Input::some_bytes() reads them.
  Writer& some_bytes(ByteView more) { return number(static_cast<std::uint16_t>(more.size())).bytes(more); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// --- the transport

// The lengths of some small messages.
inline std::vector<std::uint16_t> make_lengths(Draw& draw) {
  const auto most = static_cast<std::uint32_t>(stack::kMaxTrainMessages);
  std::vector<std::uint16_t> lengths(draw.one_in(8) ? most : 2 + draw.below(4));
  for (std::uint16_t& length : lengths) length = static_cast<std::uint16_t>(draw.below(24));
  return lengths;
}
// The bytes of a train of messages of these lengths.
inline std::uint32_t train_bytes(const std::vector<std::uint16_t>& lengths) {
  std::uint32_t bytes = 0;
  for (const std::uint16_t length : lengths) bytes += stack::train_aligned(length);
  return bytes;
}
// One that a node has, as a rule.
inline stack::ProtocolId make_protocol(Draw& draw) {
  return stack::ProtocolId(
      static_cast<std::uint8_t>(draw.one_in(8) ? draw.number<std::uint8_t>() : 1 + draw.below(4)));
}
// The record of a train. A length, the number of messages, or what else the header says may be wrong.
inline std::vector<std::byte> make_train(Draw& draw) {
  const std::vector<std::uint16_t> lengths = make_lengths(draw);
  const std::uint32_t bytes = train_bytes(lengths);
  stack::TrainLengths table{};
  std::copy(lengths.begin(), lengths.end(), table.begin());
  stack::Record r;
  r.destination = PortId(draw.number<std::uint32_t>());
  r.source = PortId(draw.number<std::uint32_t>());
  r.position = Position(draw.number<std::uint32_t>());
  r.maybe_duplicate = draw.one_in(4);
  r.skip = draw.one_in(4) ? draw.number<std::uint16_t>() : std::uint16_t{0};
  r.bytes = static_cast<std::uint16_t>(bytes);
  r.message_bytes = bytes;
  r.messages = static_cast<std::uint8_t>(lengths.size());
  r.protocol = make_protocol(draw);
  if (draw.one_in(4))
    table[draw.below(r.messages)] += static_cast<std::uint16_t>(draw.number<std::uint8_t>());
  std::vector<std::byte> record(stack::kMaxRecordHeaderBytes);
  record.resize(stack::write_record_header(record.data(), r, table));
  if (draw.one_in(8)) store(record.data() + 18, draw.length(r.messages));
  if (draw.one_in(16)) store(record.data() + 18, draw.number<std::uint8_t>());
  if (draw.one_in(16)) store(record.data() + 16, draw.number<std::uint8_t>());
  if (draw.one_in(16)) store(record.data() + 12, draw.length(r.bytes));
  const std::vector<std::byte> content = draw.bytes(bytes);
  record.insert(record.end(), content.begin(), content.end());
  return record;
}

inline std::vector<std::byte> make_records(Draw& draw, unsigned count) {
  std::vector<std::byte> all;
  for (; count > 0; --count) {
    if (draw.one_in(4)) {
      const std::vector<std::byte> train = make_train(draw);
      all.insert(all.end(), train.begin(), train.end());
      continue;
    }
    const std::vector<std::byte> content = draw.bytes(draw.below(40));
    stack::Record r;
    r.destination = PortId(draw.number<std::uint32_t>());
    r.source = PortId(draw.number<std::uint32_t>());
    r.position = Position(draw.number<std::uint32_t>());
    r.kind = static_cast<stack::RecordKind>(draw.one_in(16) ? draw.below(16) : 1 + draw.below(4));
    r.protocol = make_protocol(draw);
    r.many_pieces = draw.one_in(4);
    r.maybe_duplicate = draw.one_in(4);
    r.skip = draw.one_in(4) ? draw.number<std::uint16_t>() : std::uint16_t{0};
    r.bytes = draw.length(static_cast<std::uint16_t>(content.size()));
    r.message_bytes = r.bytes;
    if (draw.one_in(3)) {  // a part of a message: its end may be the message's, or one byte beyond
      r.message_offset = draw.one_in(2) ? 64 * draw.below(8) : draw.number<std::uint32_t>();
      r.message_bytes =
          draw.length(r.message_offset + r.bytes + (draw.one_in(2) ? 0 : draw.number<std::uint16_t>()));
      r.message = Position(draw.number<std::uint32_t>());
    }
    std::byte header[stack::kPartRecordBytes];
    all.insert(all.end(), header, header + stack::write_record_header(header, r));
    all.insert(all.end(), content.begin(), content.end());
    all.resize(stack::padded(all.size()));
  }
  return all;
}

inline stack::PacketHeader make_packet_header(Draw& draw, unsigned records) {
  stack::PacketHeader h;
  h.type = static_cast<stack::PacketType>(draw.one_in(16) ? draw.number<std::uint8_t>() : 1 + draw.below(7));
  h.records = draw.length(static_cast<std::uint8_t>(records));
  h.sack_words = static_cast<std::uint8_t>(draw.below(stack::kMaxSackWords + 1));
  h.source = {ClusterId(draw.number<std::uint16_t>()), ProxyId(draw.number<std::uint8_t>())};
  h.destination = {ClusterId(draw.number<std::uint16_t>()), ProxyId(draw.number<std::uint8_t>())};
  h.sender_epoch = draw.number<std::uint64_t>();
  h.receiver_epoch = draw.number<std::uint64_t>();
  h.seq = Seq(draw.number<std::uint32_t>());
  h.ack = Seq(draw.number<std::uint32_t>());
  h.timestamp = draw.number<std::uint32_t>();
  h.timestamp_echo = draw.number<std::uint32_t>();
  h.ack_held = draw.number<std::uint16_t>();
  h.window_packets = draw.number<std::uint16_t>();
  h.window_units = draw.number<std::uint16_t>();
  h.ack_at_once = draw.one_in(2);
  for (std::uint64_t& word : h.sack) word = draw.number<std::uint64_t>();
  return h;
}

// The payload of a datagram: a header and records, as the header says or nearly.
inline std::vector<std::byte> make_packet(Draw& draw) {
  const unsigned records = draw.below(4);
  const stack::PacketHeader h = make_packet_header(draw, records);
  std::vector<std::byte> packet(stack::kMaxPacketHeaderBytes);
  packet.resize(stack::write_packet_header(packet.data(), h));
  if (draw.one_in(8))
    packet[3] = static_cast<std::byte>(draw.length(h.sack_words));  // one more or less than there are
  const std::vector<std::byte> tail = make_records(draw, records);
  packet.insert(packet.end(), tail.begin(), tail.end());
  if (draw.one_in(16)) packet.resize(draw.length(packet.size()));
  return packet;
}

// Changes one field of a packet, or nothing if it is too short to have it.
inline void change_packet(Draw& draw, MutableBytes packet) {
  struct Field {
    std::uint8_t at, bytes;
  };
  static constexpr Field kFields[] = {{1, 1},  {2, 1},  {3, 1},  {4, 2},  {6, 1},  {7, 1},  {8, 2},  {10, 2},
                                      {12, 8}, {20, 8}, {28, 4}, {32, 4}, {36, 4}, {40, 4}, {44, 2}, {46, 2}};
  const Field field = kFields[draw.below(std::size(kFields))];
  if (packet.size() < std::size_t{field.at} + field.bytes) return;
  std::uint64_t value = 0;
  std::memcpy(&value, &packet[field.at], field.bytes);
  value = draw.one_in(2) ? draw.length(value) : draw.number<std::uint64_t>();
  std::memcpy(&packet[field.at], &value, field.bytes);
}

// --- frames

// A frame that carries the payload: checksums are right for what it says. Either length may be wrong by one; then
// another implementation would refuse it, and ours must.
inline std::vector<std::byte> make_frame(Draw& draw, const FrameEnds& ends, ByteView payload) {
  std::vector<std::byte> frame = udp_frame(ends, payload);
  std::byte* const ip = frame.data() + kEthernetBytes;
  std::byte* const udp = ip + kIpv4Bytes;
  store_be(udp + 4, draw.length(load_be<std::uint16_t>(udp + 4)));
  store_be(ip + 2, draw.length(load_be<std::uint16_t>(ip + 2)));
  if (draw.one_in(8)) store(ip + 1, draw.number<std::uint8_t>());                   // type of service
  if (draw.one_in(8)) store_be(ip + 4, draw.number<std::uint16_t>());               // identification
  if (draw.one_in(8)) store_be(ip + 6, draw.number<std::uint16_t>());               // flags, offset
  if (draw.one_in(8)) store(ip + 8, draw.number<std::uint8_t>());                   // time to live
  if (draw.one_in(16)) store(ip + 9, draw.number<std::uint8_t>());                  // protocol
  if (draw.one_in(16)) store(ip, static_cast<std::uint8_t>(0x44 + draw.below(3)));  // header length
  if (draw.one_in(16)) store_be(udp, draw.number<std::uint16_t>());
  if (draw.one_in(16))
    store_be(udp + 2, draw.one_in(2) ? draw.number<std::uint16_t>()
                                     : static_cast<std::uint16_t>(ends.destination_port + draw.below(4)));
  store_be<std::uint16_t>(ip + 10, 0);
  store_be<std::uint16_t>(ip + 10, static_cast<std::uint16_t>(~internet_sum(ByteView(ip, kIpv4Bytes))));
  // Over the datagram as the packet's length gives it.
  const std::size_t total = load_be<std::uint16_t>(ip + 2);
  const std::size_t all = frame.size() - kEthernetBytes - kIpv4Bytes;
  fix_udp_checksum(MutableBytes(udp, std::min(all, total - kIpv4Bytes)), ends.source_address,
                   ends.destination_address);
  if (draw.one_in(8))
    frame.resize(draw.length(frame.size()));  // Ethernet's padding, or a frame that is cut short
  return frame;
}

// An ICMP message with a right checksum: echoes most of all, and errors about a packet that may be ours.
inline std::vector<std::byte> make_icmp(Draw& draw, const FrameEnds& ends) {
  static constexpr std::uint8_t kTypes[] = {8, 0, 3, 11, 12, 5};
  Writer w;
  w.byte(draw.one_in(2)   ? 8u
         : draw.one_in(8) ? draw.number<std::uint8_t>()
                          : kTypes[draw.below(std::size(kTypes))]);
  w.byte(draw.one_in(2) ? 0u : draw.below(16)).number(std::uint16_t{0}).number(draw.number<std::uint32_t>());
  if (draw.one_in(2)) {
    // The beginning of a datagram that the receiver of this has sent.
    const FrameEnds back = {
        {}, {}, ends.destination_address, ends.source_address, ends.destination_port, ends.source_port};
    const std::vector<std::byte> sent = udp_frame(back, draw.bytes(draw.below(16)));
    w.bytes(ByteView(sent).subspan(kEthernetBytes, draw.length(kIpv4Bytes + kUdpBytes) - 1));
  } else {
    w.bytes(draw.bytes(draw.below(64)));
  }
  std::vector<std::byte> message = w.take();
  store_be<std::uint16_t>(message.data() + 2, static_cast<std::uint16_t>(~internet_sum(message)));
  return message;
}

// --- the control socket

inline proxy::control::Message make_request(Draw& draw) {
  namespace control = proxy::control;
  control::Message m;
  for (std::size_t i = 0; i + 4 <= sizeof m.bytes; i += 4) store(m.bytes + i, draw.number<std::uint32_t>());
  if (draw.one_in(16)) m.magic = draw.length(m.magic);
  if (draw.one_in(16)) m.version = draw.length(m.version);
  m.serial = draw.number<std::uint32_t>();
  m.kind = static_cast<control::Kind>(draw.one_in(16) ? 98 + draw.below(8) : draw.below(9));
  const auto window = [&] { return draw.length(4096u << draw.below(5)); };
  const auto some = [&](std::uint32_t n) {
    return draw.one_in(4) ? draw.number<std::uint32_t>() : draw.below(n);
  };
  switch (m.kind) {
    case control::Kind::kAttach:
      m.attach = {some(4), draw.length(32768u << draw.below(4)),
                  draw.length(std::uint64_t{2048} << draw.below(8))};
      break;
    case control::Kind::kListen:
      m.listen = {some(4), some(2), window(), some(2), some(6)};
      break;
    case control::Kind::kConnect:
      m.connect = {some(3), some(4), some(2), window(), some(2), some(200), some(6)};
      break;
    case control::Kind::kConnectMachine:
      m.connect_machine.connect = {0, some(4), some(2), window(), some(2), some(200), some(6)};
      for (std::uint32_t& address : m.connect_machine.addresses) address = 0x0a620000 + some(4);
      m.connect_machine.nis = draw.length(static_cast<std::uint16_t>(draw.one_in(4) ? kMaxNis : 1));
      m.connect_machine.udp_port = static_cast<std::uint16_t>(draw.one_in(4) ? some(65536) : 7699);
      break;
    case control::Kind::kClose:
      m.close = {draw.one_in(2) ? some(4) : 65536 + some(8)};
      break;
    case control::Kind::kSetProxies:
      m.set_proxies = {some(4), some(4)};
      break;
    default:
      break;
  }
  return m;
}

// --- page engines

// Of the right form for its kind, or a byte longer or shorter; pages, locks and numbers that a small machine has.
inline std::vector<std::byte> make_engine_message(
    Draw& draw, std::size_t max_payload = dsm::max_message_bytes(dsm::PageLength())) {
  dsm::Header h;
  h.kind = static_cast<dsm::Kind>(1 + draw.below(dsm::kKinds - 1));
  h.format = static_cast<std::uint8_t>(draw.one_in(3) ? draw.below(16) : draw.below(2));
  h.id = draw.one_in(8) ? draw.number<std::uint32_t>() : draw.below(9);
  h.number = draw.one_in(8) ? draw.number<std::uint32_t>() : draw.below(4);
  std::size_t payload = dsm::payload_room(dsm::PageLength(), h);
  if (h.kind == dsm::Kind::kDiff) payload = draw.below(48);
  if (h.kind == dsm::Kind::kInvalidate || h.kind == dsm::Kind::kInvalidateAck) payload = 4 * draw.below(4);
  payload = draw.length(payload);
  if (payload > max_payload) payload = 0;
  std::vector<std::byte> message(dsm::kHeaderBytes);
  dsm::write_header(message, h);
  for (; payload >= 4; payload -= 4) {
    std::byte word[4];
    store(word, draw.one_in(2) ? draw.below(8) : draw.number<std::uint32_t>());
    message.insert(message.end(), word, word + 4);
  }
  message.resize(message.size() + payload);
  return message;
}

// --- inputs

// One operation of a fuzzer, as it reads it.
using MakeOperation = std::vector<std::byte> (*)(Draw&);

// Mutates an input of such operations in place and returns its new size: the body of LLVMFuzzerCustomMutator().
inline std::size_t custom_mutation(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                                   MakeOperation make) {
  const Arena::Pause pause;
  Draw draw(seed);
  if (draw.one_in(2) || max_size == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::byte> made = make(draw);
  made.resize(std::min(made.size(), max_size));
  // At the end and at the beginning an operation begins; elsewhere one may.
  const std::uint32_t where = draw.below(4);
  std::size_t at = where == 0 ? 0 : where == 1 ? size : draw.below(static_cast<std::uint32_t>(size + 1));
  at = std::min(at, max_size - made.size());
  const bool overwrites = draw.one_in(4);
  if (!overwrites) {
    const std::size_t moved = std::min(size - at, max_size - at - made.size());
    std::memmove(data + at + made.size(), data + at, moved);
    size = at + made.size() + moved;
  }
  std::memcpy(data + at, made.data(), made.size());
  return std::max(size, at + made.size());
}

}  // namespace braid::fuzz
