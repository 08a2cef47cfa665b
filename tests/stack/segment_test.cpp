// The packet of the sliding-window transport: every field there and back, every length cut short, and bytes
// that nobody wrote.
#include "stack/wire/segment.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "wire_bytes.h"

namespace braid::stack {
namespace {

PacketHeader full_header() {
  PacketHeader h;
  h.type = PacketType::kData;
  h.records = 17;
  h.sack_words = 4;
  h.source = {ClusterId(0x0102), ProxyId(3)};
  h.destination = {ClusterId(0x0405), ProxyId(6)};
  h.sender_epoch = 0x1122334455667788;
  h.receiver_epoch = 0x99aabbccddeeff00;
  h.seq = Seq(0xfffffffe);
  h.ack = Seq(0x80000001);
  h.timestamp = 0x01020304;
  h.timestamp_echo = 0x05060708;
  h.ack_held = 0x090a;
  h.window_packets = 0x0b0c;
  h.window_units = 0x0d0e;
  h.ack_at_once = true;
  for (std::size_t w = 0; w < kMaxSackWords; ++w) h.sack[w] = 0x8000000000000001 + (w << 8);
  return h;
}

void expect_same(const PacketHeader& a, const PacketHeader& b) {
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.records, b.records);
  EXPECT_EQ(a.sack_words, b.sack_words);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.destination, b.destination);
  EXPECT_EQ(a.sender_epoch, b.sender_epoch);
  EXPECT_EQ(a.receiver_epoch, b.receiver_epoch);
  EXPECT_EQ(a.seq, b.seq);
  EXPECT_EQ(a.ack, b.ack);
  EXPECT_EQ(a.timestamp, b.timestamp);
  EXPECT_EQ(a.timestamp_echo, b.timestamp_echo);
  EXPECT_EQ(a.ack_held, b.ack_held);
  EXPECT_EQ(a.window_packets, b.window_packets);
  EXPECT_EQ(a.window_units, b.window_units);
  EXPECT_EQ(a.ack_at_once, b.ack_at_once);
  for (std::size_t w = 0; w < a.sack_words; ++w) EXPECT_EQ(a.sack[w], b.sack[w]) << w;
}

Bytes written(const PacketHeader& h) {
  Bytes out(kMaxPacketHeaderBytes);
  out.resize(write_packet_header(out.data(), h));
  return out;
}

TEST(PacketHeader, EveryWrittenFieldIsReadBack) {
  for (const PacketType type : {PacketType::kHello, PacketType::kData, PacketType::kAck, PacketType::kProbe,
                                PacketType::kClose, PacketType::kChallenge, PacketType::kResponse}) {
    for (std::uint8_t words = 0; words <= kMaxSackWords; ++words) {
      PacketHeader h = full_header();
      h.type = type;
      h.sack_words = words;
      const Bytes bytes = written(h);
      EXPECT_EQ(bytes.size(), kPacketHeaderBytes + 8u * words);
      PacketHeader back;
      std::size_t length = 0;
      ASSERT_TRUE(parse_packet_header(bytes, &back, &length));
      EXPECT_EQ(length, bytes.size());
      expect_same(h, back);
    }
  }
}

TEST(PacketHeader, LiesOnTheWireAsDocumented) {
  PacketHeader h = full_header();
  h.sack_words = 1;
  EXPECT_EQ(written(h),
            bytes({5,    2,    17,   0x81, 0x02, 0x01, 3,    6,    0x05, 0x04, 0x0a, 0x09,              //
                   0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb,  //
                   0xaa, 0x99, 0xfe, 0xff, 0xff, 0xff, 0x01, 0x00, 0x00, 0x80, 0x04, 0x03, 0x02, 0x01,  //
                   0x08, 0x07, 0x06, 0x05, 0x0c, 0x0b, 0x0e, 0x0d,                                      //
                   0x01, 0,    0,    0,    0,    0,    0,    0x80}));
}

TEST(PacketHeader, EveryTruncationIsRefusedWithoutReadingOutOfBounds) {
  const GuardedPage page;
  const Bytes whole = written(full_header());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    PacketHeader h;
    std::size_t length = 0;
    EXPECT_FALSE(parse_packet_header(page.hold(first(whole, n)), &h, &length)) << n;
  }
}

TEST(PacketHeader, UnknownVersionsTypesAndWordCountsAreRefused) {
  const Bytes good = written(full_header());
  PacketHeader h;
  std::size_t length = 0;
  for (const int version : {0, 1, kWireVersion + 1, 255})
    EXPECT_FALSE(parse_packet_header(with(good, 0, version), &h, &length));
  for (const int type : {0, 8, 255}) EXPECT_FALSE(parse_packet_header(with(good, 1, type), &h, &length));
  for (const int words : {5, 127, 0x85}) EXPECT_FALSE(parse_packet_header(with(good, 3, words), &h, &length));
}

Record whole_record(std::uint16_t bytes) {
  Record r;
  r.destination = PortId(0x01020304);
  r.source = PortId(0x05060708);
  r.position = Position(0xfffffff0);
  r.message = r.position;
  r.bytes = bytes;
  r.message_bytes = bytes;
  r.skip = 0x1234;
  return r;
}

void expect_same(const Record& a, const Record& b) {
  EXPECT_EQ(a.destination, b.destination);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.protocol, b.protocol);
  EXPECT_EQ(a.many_pieces, b.many_pieces);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.skip, b.skip);
  EXPECT_EQ(a.message_bytes, b.message_bytes);
  EXPECT_EQ(a.message_offset, b.message_offset);
  EXPECT_EQ(a.message, b.message);
}

void append(Bytes& packet, const Record& r, ByteView content) {
  std::byte header[kPartRecordBytes];
  const std::size_t length = write_record_header(header, r);
  packet.insert(packet.end(), header, header + length);
  packet.insert(packet.end(), content.begin(), content.end());
  packet.resize(packet.size() + padded(content.size()) - content.size());
}

TEST(Records, RecordsOfEveryKindAreReadBackInOrder) {
  Prng prng(1);
  std::vector<Record> records;
  std::vector<Bytes> contents;
  for (const int n : {0, 1, 2, 3, 4, 63, 64, 65})
    records.push_back(whole_record(static_cast<std::uint16_t>(n)));
  Record part = whole_record(128);
  part.message_bytes = 1 << 30;
  part.message_offset = 64;
  part.message = Position(0xffffffef);
  records.push_back(part);
  part.many_pieces = true;
  part.message_offset = (1 << 30) - 128;
  records.push_back(part);
  Record credit = whole_record(0);
  credit.kind = RecordKind::kCredit;
  records.push_back(credit);
  Record control = whole_record(16);
  control.kind = RecordKind::kDatagram;
  control.protocol = kControl;
  records.push_back(control);
  control.kind = RecordKind::kReturned;
  control.protocol = ProtocolId(255);
  records.push_back(control);

  Bytes packet;
  for (const Record& r : records) {
    contents.push_back(random_bytes(prng, r.bytes));
    append(packet, r, contents.back());
  }
  RecordReader reader(packet, static_cast<unsigned>(records.size()));
  for (std::size_t i = 0; i < records.size(); ++i) {
    SCOPED_TRACE(i);
    Record r;
    ByteView content;
    ASSERT_TRUE(reader.next(&r, &content));
    expect_same(records[i], r);
    EXPECT_TRUE(same(content, contents[i]));
  }
  Record r;
  ByteView content;
  EXPECT_FALSE(reader.next(&r, &content));
  EXPECT_FALSE(reader.broken());
}

TEST(Records, TruncatedPacketIsMalformedAndNotReadPastItsEnd) {
  const GuardedPage page;
  Prng prng(2);
  Bytes packet;
  append(packet, whole_record(10), random_bytes(prng, 10));
  Record part = whole_record(64);
  part.message_bytes = 200;
  append(packet, part, random_bytes(prng, 64));
  for (std::size_t n = 0; n < packet.size(); ++n) {
    RecordReader reader(page.hold(first(packet, n)), 2);
    Record r;
    ByteView content;
    int records = 0;
    while (reader.next(&r, &content)) ++records;
    EXPECT_TRUE(reader.broken()) << n;
    EXPECT_EQ(records, n >= kWholeRecordBytes + 12 ? 1 : 0) << n;
  }
}

TEST(Records, BytesOutsideRecordsAreMalformed) {
  Bytes packet;
  append(packet, whole_record(4), bytes({1, 2, 3, 4}));
  packet.push_back(std::byte{0});
  RecordReader reader(packet, 1);
  Record r;
  ByteView content;
  EXPECT_TRUE(reader.next(&r, &content));
  EXPECT_FALSE(reader.next(&r, &content));
  EXPECT_TRUE(reader.broken());
}

TEST(Records, ImpossibleRecordsAreMalformed) {
  Record r;
  ByteView content;
  const auto refused = [&](Bytes packet) {
    RecordReader reader(packet, 1);
    return !reader.next(&r, &content) && reader.broken();
  };
  Bytes good;
  append(good, whole_record(4), bytes({1, 2, 3, 4}));
  EXPECT_FALSE(refused(good));
  EXPECT_TRUE(refused(with(good, 16, 0))) << "no kind";
  EXPECT_TRUE(refused(with(good, 16, 5))) << "an unknown kind";
  EXPECT_TRUE(refused(with(good, 19, 1))) << "bits that mean nothing";
  EXPECT_FALSE(refused(with(good, 17, 255))) << "a protocol, which is not this layer's to know";  // PS-1
  EXPECT_EQ(r.protocol, ProtocolId(255));
  EXPECT_TRUE(refused(with(good, 12, 5))) << "longer than the packet";

  Record part = whole_record(64);
  part.message_bytes = 128;
  part.message_offset = 64;
  Bytes parts;
  append(parts, part, Bytes(64));
  EXPECT_FALSE(refused(parts));
  EXPECT_TRUE(refused(with(parts, 24, 65))) << "past the end of its message";
  EXPECT_TRUE(refused(with(parts, 27, 0xff))) << "past the end of its message, by far";
}

// --- trains (CV-11)

// Messages of these lengths, each from a multiple of 8 bytes on.
Record train_record(const TrainLengths& lengths, std::uint8_t messages) {
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < messages; ++i) sum += train_aligned(lengths[i]);
  Record r = whole_record(static_cast<std::uint16_t>(sum));
  r.messages = messages;
  return r;
}

Bytes train_packet(const Record& r, const TrainLengths& lengths) {
  std::byte header[kMaxRecordHeaderBytes];
  const std::size_t length = write_record_header(header, r, lengths);
  Bytes packet(header, header + length);
  packet.resize(length + r.bytes);
  return packet;
}

TEST(Trains, LengthsAreReadBack) {
  for (const unsigned n : {2u, 3u, 15u, 16u}) {
    SCOPED_TRACE(n);
    TrainLengths lengths{};
    for (unsigned i = 0; i < n; ++i) lengths[i] = static_cast<std::uint16_t>(i * 9);
    const Record sent = train_record(lengths, static_cast<std::uint8_t>(n));
    const Bytes packet = train_packet(sent, lengths);
    EXPECT_EQ(packet.size(), kWholeRecordBytes + train_table_bytes(n) + sent.bytes);
    RecordReader reader(packet, 1);
    Record r;
    ByteView content;
    ASSERT_TRUE(reader.next(&r, &content));
    expect_same(sent, r);
    EXPECT_EQ(r.messages, n);
    EXPECT_EQ(reader.lengths(r), lengths);
    EXPECT_EQ(content.size(), sent.bytes);
    EXPECT_FALSE(reader.next(&r, &content));
    EXPECT_FALSE(reader.broken());
  }
}

TEST(Trains, RecordBehindATrainIsNoTrain) {
  const TrainLengths lengths = {8, 16};
  Bytes packet = train_packet(train_record(lengths, 2), lengths);
  append(packet, whole_record(4), bytes({1, 2, 3, 4}));
  RecordReader reader(packet, 2);
  Record r;
  ByteView content;
  ASSERT_TRUE(reader.next(&r, &content));
  ASSERT_TRUE(reader.next(&r, &content));
  EXPECT_EQ(r.messages, 0u);
  EXPECT_EQ(r.bytes, 4u);
}

TEST(Trains, ImpossibleTrainsAreMalformed) {
  const TrainLengths lengths = {8, 5, 16};
  const Record train = train_record(lengths, 3);
  Record r;
  ByteView content;
  const auto refused = [&](const Bytes& packet) {
    RecordReader reader(packet, 1);
    return !reader.next(&r, &content) && reader.broken();
  };
  const Bytes good = train_packet(train, lengths);
  EXPECT_FALSE(refused(good));
  EXPECT_TRUE(refused(with(good, 18, 1))) << "a train of one";
  EXPECT_TRUE(refused(with(good, 18, 2))) << "fewer than its bytes";
  EXPECT_TRUE(refused(with(good, 18, 5))) << "a table that reaches into its bytes";
  EXPECT_TRUE(refused(with(good, 18, 17))) << "more than a train may have";
  EXPECT_TRUE(refused(with(good, 18, 255))) << "a table behind the packet's end";
  EXPECT_TRUE(refused(with(good, 19, 1))) << "a byte that means nothing";
  EXPECT_TRUE(refused(with(good, kWholeRecordBytes, 9))) << "lengths that are not its bytes";
  EXPECT_TRUE(refused(with(good, 16, 2))) << "of credits";
  EXPECT_TRUE(refused(with(good, 16, 1 | 0x40))) << "of a message of many pieces";
  EXPECT_TRUE(refused(with(good, 16, 1 | 0x80))) << "a part";

  TrainLengths long_ones{};
  long_ones.fill(136);
  const Record too_long = train_record(long_ones, 16);
  ASSERT_GT(too_long.bytes, kMaxTrainBytes);
  EXPECT_TRUE(refused(train_packet(too_long, long_ones)));
}

TEST(Trains, TruncatedTrainIsMalformedAndNotReadPastItsEnd) {
  const GuardedPage page;
  const TrainLengths lengths = {8, 5, 16};
  const Bytes packet = train_packet(train_record(lengths, 3), lengths);
  for (std::size_t n = 0; n < packet.size(); ++n) {
    RecordReader reader(page.hold(first(packet, n)), 1);
    Record r;
    ByteView content;
    EXPECT_FALSE(reader.next(&r, &content)) << n;
    EXPECT_TRUE(reader.broken()) << n;
  }
}

TEST(Records, NoInputMakesTheReaderReadOutOfBoundsOrLoop) {
  const GuardedPage page;
  for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Bytes packet = random_bytes(prng, prng.below(300));
    // Half of them with headers that look right as far as the first checks go.
    for (std::size_t at = 0; prng.chance(0.5) && at + kPartRecordBytes < packet.size();
         at += kWholeRecordBytes) {
      store(packet.data() + at + 12, static_cast<std::uint16_t>(prng.below(80)));
      store(packet.data() + at + 16,
            static_cast<std::uint32_t>(prng.below(4) | (prng.below(4) << 6) |
                                       (prng.chance(0.3) ? prng.below(18) << 16 : 0)));
    }
    const ByteView held = page.hold(packet);
    const auto said = static_cast<unsigned>(prng.below(256));
    RecordReader reader(held, said);
    Record r;
    ByteView content;
    unsigned records = 0;
    while (reader.next(&r, &content)) {
      ASSERT_TRUE(lies_within(content, held));
      ASSERT_TRUE(inside(r.message_offset, r.bytes, r.message_bytes));
      ASSERT_EQ(content.size(), r.bytes);
      if (r.messages != 0) {
        ASSERT_TRUE(is_train(reader.lengths(r), r.messages, r.bytes));
      }
      ++records;
    }
    ASSERT_LE(records, said);
  }
}

TEST(PacketHeader, NoInputMakesTheParserReadOutOfBounds) {
  const GuardedPage page;
  for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Bytes packet = random_bytes(prng, prng.below(kMaxPacketHeaderBytes + 8));
    if (packet.size() > 4) {
      packet[0] = std::byte{kWireVersion};
      packet[1] = static_cast<std::byte>(prng.below(6));
      packet[3] = static_cast<std::byte>(prng.below(6));
    }
    const ByteView held = page.hold(packet);
    PacketHeader h;
    std::size_t length = 0;
    if (!parse_packet_header(held, &h, &length)) continue;
    ASSERT_LE(length, held.size());
    ASSERT_LE(h.sack_words, kMaxSackWords);
  }
}

}  // namespace
}  // namespace braid::stack
