// The packet of the sliding-window transport, as it follows the UDP header: one packet header, then records.
//
//   0        1        2        3        4               8               12
//   +--------+--------+--------+--------+---------------+---------------+
//   | version|  type  | records| sack w.| source cluster| proxies: s, d |
//   +--------+--------+--------+--------+---------------+---------------+
//   | destination cl. | ack held (2)    |
//   +-----------------+-----------------+-------------------------------+ 12
//   | sender epoch (8)                                                  |
//   | receiver epoch (8): the sender's belief of it, 0 = unknown        | 28
//   | seq (4) | ack (4) | timestamp (4) | timestamp echo (4)            | 44
//   | window: packets (2), units of 256 bytes (2)                       | 48
//   | sack words (8 each, 0..4): bit i of word w = packet ack+1+64w+i   |
//   +-------------------------------------------------------------------+
//   | records: header (20; 32 for a part of a message; for a train 20   |
//   |          and the lengths of its messages), bytes, and zeroes up   |
//   |          to a multiple of 4                                       |
//   +-------------------------------------------------------------------+
//
// Little-endian, except that IP and UDP below keep the network's order. A packet's seq counts packets; its
// records never change once sent, so an acknowledged seq means that all its records were delivered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/seq.h"
#include "stack/wire/protocol_id.h"

namespace braid::stack {

inline constexpr std::uint8_t kWireVersion = 5;

enum class PacketType : std::uint8_t {
  kHello = 1,  // handshake: epochs; in the place of records the shared settings' hash, and an incarnation
  kData = 2,   // records; acknowledges too
  kAck = 3,    // acknowledges only, has no seq of its own
  kProbe = 4,  // as kAck, and asks for one: keep-alive, or a look at a closed window
  kClose = 5,  // as kAck, and the last word of this incarnation
  // Only sealed, and 8 bytes behind the header (SE-8):
  kChallenge = 6,  // to an address that the peer seems to have now
  kResponse = 7,   // from there, with the same bytes
};

// One end of a sub-connection.
struct StackId {
  ClusterId cluster;
  ProxyId proxy;
  constexpr auto operator<=>(const StackId&) const = default;
};

inline constexpr std::size_t kMaxSackWords = 4;

struct PacketHeader {
  PacketType type = PacketType::kData;
  std::uint8_t records = 0;
  std::uint8_t sack_words = 0;
  StackId source;
  StackId destination;
  std::uint64_t sender_epoch = 0;
  std::uint64_t receiver_epoch = 0;
  Seq seq;
  Seq ack;  // everything before it was delivered
  std::uint32_t timestamp = 0;
  std::uint32_t timestamp_echo = 0;        // 0: nothing to echo
  std::uint16_t ack_held = 0;              // how long the echo waited here, as timestamps count; at most
  std::uint16_t window_packets = 0;        // that the sender of this takes after `ack`
  std::uint16_t window_units = 0;          // the same in units of kWindowUnitBytes
  bool ack_at_once = false;                // the sender waits for this packet's acknowledgement
  std::uint64_t sack[kMaxSackWords] = {};  // sack_words of them
};

inline constexpr std::uint32_t kWindowUnitBytes = 256;
inline constexpr std::size_t kPacketHeaderBytes = 48;  // without words of selective acknowledgement
// The length of a header with so many of them; also where the next of them would begin.
constexpr std::size_t packet_header_bytes(std::size_t sack_words) {
  return kPacketHeaderBytes + sizeof(std::uint64_t) * sack_words;
}
inline constexpr std::size_t kMaxPacketHeaderBytes = packet_header_bytes(kMaxSackWords);

enum class RecordKind : std::uint8_t {
  kMessage = 1,   // a message, or a part of one, for a connection
  kCredit = 2,    // `position`: the receiver has consumed everything before it; no bytes
  kDatagram = 3,  // of no connection: it stands for itself
  kReturned = 4,  // a datagram that its receiver has refused and sends back; `skip`: why
};

// The header fields of a record; also describes a piece before it is cut into segments.
struct Record {
  PortId destination;
  PortId source;
  Position position;  // of the first byte, in granules
  RecordKind kind = RecordKind::kMessage;
  ProtocolId protocol = kMessages;
  bool many_pieces = false;      // the message was cut by its sender: rejoin it outside the window
  bool maybe_duplicate = false;  // it may have been delivered before, by another sub-connection
  std::uint8_t messages = 0;     // of a train: 2 to kMaxTrainMessages; 0: no train
  std::uint16_t bytes = 0;       // in this record
  std::uint16_t skip = 0;        // unused granules before it
  // Of the whole message; for a record that is a whole message message_bytes == bytes.
  std::uint32_t message_bytes = 0;
  std::uint32_t message_offset = 0;  // of this record's first byte, a multiple of a granule
  Position message;                  // position of the message's first byte: names the message

  constexpr bool whole() const { return message_bytes == bytes; }
};
static_assert(offsetof(Record, protocol) == offsetof(Record, kind) + 1);  // kind_and_protocol() reads both

inline constexpr std::size_t kWholeRecordBytes = 20;
inline constexpr std::size_t kPartRecordBytes = 32;
inline constexpr std::size_t kMaxRecordHeaderBytes = 52;  // of the longest train
// A record's length has 16 bits.
inline constexpr std::uint32_t kMaxRecordBytes = 0xffff;
// The longest piece of a message that a parallel connection puts into a record: a power of two.
inline constexpr std::uint32_t kMaxPieceBytes = 32768;
static_assert(kMaxPieceBytes <= kMaxRecordBytes);

// The length of a record's bytes in the packet, with padding.
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 3) & ~std::size_t{3};
}

// A train is consecutive small messages of one connection in one record (SC-6). Each of them begins at a multiple
// of 8 bytes. The record's position is that of the first; each other message takes the place behind the one before.
inline constexpr std::size_t kMaxTrainMessages = 16;
inline constexpr std::uint32_t kTrainAlignment = 8;
// The longest train, in bytes of its record.
inline constexpr std::uint32_t kMaxTrainBytes = 2048;
// In bytes; Record::messages of them are used.
using TrainLengths = std::array<std::uint16_t, kMaxTrainMessages>;

constexpr std::uint32_t train_aligned(std::uint32_t bytes) {
  return (bytes + kTrainAlignment - 1) & ~(kTrainAlignment - 1);
}
// The length of the table in the record's header; 0 where the record is no train.
constexpr std::size_t train_table_bytes(unsigned messages) {
  return padded(messages * sizeof(std::uint16_t));
}
// The lengths are those of a train of so many messages in `bytes` bytes.
constexpr bool is_train(const TrainLengths& lengths, unsigned messages, std::uint32_t bytes) {
  if (messages < 2 || messages > kMaxTrainMessages || bytes > kMaxTrainBytes) return false;
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < messages; ++i) sum += train_aligned(lengths[i]);
  return sum == bytes;
}

// Writes the header; `to` holds kMaxPacketHeaderBytes. Returns its length.
inline std::size_t write_packet_header(std::byte* to, const PacketHeader& header);
// Into a header that was written with neither: how many records follow, and that their acknowledgement is
// waited for. Returns what that adds to the packet's checksum.
inline std::uint64_t complete_header(std::byte* header, std::uint8_t records, bool ack_at_once);
// False if `payload` is too short, of another version, or of an unknown type. Reads nothing outside
// `payload`.
[[nodiscard]] inline bool parse_packet_header(ByteView payload, PacketHeader* header,
                                              std::size_t* header_bytes);

// Writes a record's header; returns its length. The caller has room for kMaxRecordHeaderBytes. `lengths`: of a
// train's messages, otherwise not read.
inline std::size_t write_record_header(std::byte* to, const Record& r, const TrainLengths& lengths = {});

// Walks the records of a packet. Every step checks the bounds.
class RecordReader {
 public:
  RecordReader(ByteView bytes, unsigned records) : rest_(bytes), left_(records) {}
  // False at the end, and at the first record that is malformed: then broken() is true.
  bool next(Record* record, ByteView* bytes);
  // Of the record that next() returned, if that is a train.
  TrainLengths lengths(const Record& record) const { return load_lengths(record, table_); }
  bool broken() const { return broken_; }

 private:
  static TrainLengths load_lengths(const Record& record, const std::byte* table);
  static bool is_well_formed_train(const Record& record, const std::byte* table);

  ByteView rest_;
  unsigned left_;
  bool broken_ = false;
  const std::byte* table_ = nullptr;  // of the last train's lengths
};

// --- inline: two of these run for every message

namespace detail {
inline constexpr std::uint8_t kAckAtOnce = 0x80;  // beside the number of sack words
inline constexpr std::uint32_t kPartFlag = 0x80;
inline constexpr std::uint32_t kManyPiecesFlag = 0x40;
inline constexpr std::uint32_t kMaybeDuplicateFlag = 0x20;
inline constexpr std::uint8_t kKindMask = 0x0f;
}  // namespace detail

inline std::size_t write_packet_header(std::byte* to, const PacketHeader& h) {
  store(to, kWireVersion);
  store(to + 1, static_cast<std::uint8_t>(h.type));
  store(to + 2, h.records);
  store(to + 3, static_cast<std::uint8_t>(h.sack_words | (h.ack_at_once ? detail::kAckAtOnce : 0)));
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
  for (std::size_t w = 0; w < h.sack_words; ++w) store(to + packet_header_bytes(w), h.sack[w]);
  return packet_header_bytes(h.sack_words);
}

inline std::uint64_t complete_header(std::byte* header, std::uint8_t records, bool ack_at_once) {
  const auto added = static_cast<std::uint16_t>(records | (ack_at_once ? detail::kAckAtOnce << 8 : 0));
  store(header + 2, static_cast<std::uint16_t>(load<std::uint16_t>(header + 2) | added));
  return added;
}

inline bool parse_packet_header(ByteView payload, PacketHeader* h, std::size_t* header_bytes) {
  if (payload.size() < kPacketHeaderBytes) return false;
  const std::byte* p = payload.data();
  if (load<std::uint8_t>(p) != kWireVersion) return false;
  const auto type = load<std::uint8_t>(p + 1);
  if (type < 1 || type > 7) return false;
  h->type = static_cast<PacketType>(type);
  h->records = load<std::uint8_t>(p + 2);
  const auto words = load<std::uint8_t>(p + 3);
  h->ack_at_once = (words & detail::kAckAtOnce) != 0;
  h->sack_words = static_cast<std::uint8_t>(words & ~detail::kAckAtOnce);
  if (h->sack_words > kMaxSackWords) return false;
  *header_bytes = packet_header_bytes(h->sack_words);
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
    h->sack[w] = load<std::uint64_t>(p + packet_header_bytes(w));
  return true;
}

// As they lie in the record's header: one load, for every message.
inline std::uint16_t kind_and_protocol(const Record& r) {
  return load<std::uint16_t>(reinterpret_cast<const std::byte*>(&r) + offsetof(Record, kind));
}

// The header of a record that is a whole message or begins one, and holds `bytes` of it.
inline std::size_t write_record_header(std::byte* to, const Record& r, std::uint16_t bytes) {
  const bool whole = r.message_bytes == bytes;
  store(to, r.destination.value());
  store(to + 4, r.source.value());
  store(to + 8, r.position.value());
  store(to + 12, bytes);
  store(to + 14, r.skip);
  store(to + 16, std::uint32_t{kind_and_protocol(r)} | (whole ? 0u : detail::kPartFlag) |
                     (r.many_pieces ? detail::kManyPiecesFlag : 0u) |
                     (r.maybe_duplicate ? detail::kMaybeDuplicateFlag : 0u));
  if (whole) return kWholeRecordBytes;
  store(to + 20, r.message_bytes);
  store(to + 24, r.message_offset);
  store(to + 28, r.message.value());
  return kPartRecordBytes;
}

// The header of a train's record.
inline std::size_t write_train_header(std::byte* to, const Record& r, std::uint16_t bytes,
                                      const TrainLengths& lengths) {
  const std::size_t header = write_record_header(to, r, bytes);
  store(to + 18, r.messages);
  std::byte* const table = to + header;
  if (r.messages % 2 != 0) store(table + sizeof(std::uint16_t) * r.messages, std::uint16_t{0});
  for (unsigned i = 0; i < r.messages; ++i) store(table + sizeof(std::uint16_t) * i, lengths[i]);
  return header + train_table_bytes(r.messages);
}

inline std::size_t write_record_header(std::byte* to, const Record& r, const TrainLengths& lengths) {
  return r.messages == 0 ? write_record_header(to, r, r.bytes) : write_train_header(to, r, r.bytes, lengths);
}

inline TrainLengths RecordReader::load_lengths(const Record& r, const std::byte* table) {
  TrainLengths lengths{};
  for (unsigned i = 0; i < r.messages; ++i)
    lengths[i] = load<std::uint16_t>(table + sizeof(std::uint16_t) * i);
  return lengths;
}

// CV-11
inline bool RecordReader::is_well_formed_train(const Record& r, const std::byte* table) {
  return r.kind == RecordKind::kMessage && !r.many_pieces && r.messages <= kMaxTrainMessages &&
         is_train(load_lengths(r, table), r.messages, r.bytes);
}

inline bool RecordReader::next(Record* r, ByteView* bytes) {
  if (left_ == 0) {
    broken_ = broken_ || !rest_.empty();
    return false;
  }
  --left_;
  broken_ = true;
  if (rest_.size() < kWholeRecordBytes) return false;
  const std::byte* p = rest_.data();
  r->destination = PortId(load<std::uint32_t>(p));
  r->source = PortId(load<std::uint32_t>(p + 4));
  r->position = Position(load<std::uint32_t>(p + 8));
  r->bytes = load<std::uint16_t>(p + 12);
  r->skip = load<std::uint16_t>(p + 14);
  const auto word = load<std::uint32_t>(p + 16);
  const auto kind = static_cast<std::uint8_t>(word & detail::kKindMask);
  if (kind < 1 || kind > 4) return false;
  r->kind = static_cast<RecordKind>(kind);
  r->protocol = ProtocolId(static_cast<std::uint8_t>(word >> 8));
  r->many_pieces = (word & detail::kManyPiecesFlag) != 0;
  r->maybe_duplicate = (word & detail::kMaybeDuplicateFlag) != 0;
  r->messages = 0;
  std::size_t header = kWholeRecordBytes;
  if (word > 0xffff) [[unlikely]] {  // a train, or malformed
    if ((word & 0xff000000) != 0 || (word & detail::kPartFlag) != 0) return false;
    r->messages = static_cast<std::uint8_t>(word >> 16);
    header += train_table_bytes(r->messages);
    table_ = p + kWholeRecordBytes;
    if (rest_.size() < header || !is_well_formed_train(*r, table_)) return false;
  }
  if ((word & detail::kPartFlag) != 0) {
    header = kPartRecordBytes;
    if (rest_.size() < header) return false;
    r->message_bytes = load<std::uint32_t>(p + 20);
    r->message_offset = load<std::uint32_t>(p + 24);
    r->message = Position(load<std::uint32_t>(p + 28));
    if (!inside(r->message_offset, r->bytes, r->message_bytes)) return false;
  } else {
    r->message_bytes = r->bytes;
    r->message_offset = 0;
    r->message = r->position;
  }
  if (rest_.size() - header < padded(r->bytes)) return false;
  *bytes = rest_.subspan(header, r->bytes);
  rest_ = rest_.subspan(header + padded(r->bytes));
  broken_ = false;
  return true;
}

}  // namespace braid::stack
