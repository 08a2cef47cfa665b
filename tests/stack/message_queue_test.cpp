#include "stack/message_queue.h"

#include <gtest/gtest.h>

#include "sub_connection_parts.h"

namespace braid::stack {
namespace {

using namespace parts;
using List = std::vector<const OutMessage*>;
constexpr std::size_t kPacketBytes = 1472;

struct Fixture : testing::Test {
  // Cuts a packet; returns the lengths of its records.
  std::vector<std::uint32_t> cut() {
    PacketWriter packet(room, PacketHeader{});
    const PacketContent content = queue.cut(packet);
    window.sent(at(0_us), content);
    return lengths(packet, content);
  }
  // The lengths of its records, and the packet into `last_packet`.
  std::vector<std::uint32_t> lengths(const PacketWriter& packet, const PacketContent& content) {
    std::uint64_t sum = 0;
    const std::size_t length = packet.finish(content.records, false, &sum);
    last_packet.assign(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(checksum_fold(sum), checksum_fold(checksum_add(0, last_packet)));
    RecordReader reader(ByteView(last_packet).subspan(kPacketHeaderBytes), content.records);
    std::vector<std::uint32_t> all;
    Record r;
    for (ByteView bytes; reader.next(&r, &bytes);) all.push_back(r.bytes);
    EXPECT_FALSE(reader.broken());
    return all;
  }
  // The peer has packet `seq`, the oldest in flight.
  void acknowledge(Seq seq) {
    const std::uint64_t none[kMaxSackWords] = {};
    (void)window.on_ack(seq + 1, none, 0, {at(1_ms), at(0_us), Duration()},
                        [&](const PacketContent& content) { queue.acknowledged(content); });
  }

  std::vector<std::byte> room = std::vector<std::byte>(kPacketBytes);
  std::vector<std::byte> last_packet;
  Messages messages;
  MessageQueue queue{kPacketBytes};
  PacketWindow window{256};
};
using MessageQueueTest = Fixture;

TEST_F(MessageQueueTest, MessagesShareAPacketInTheOrderOfPush) {
  EXPECT_TRUE(queue.push(messages.add(64)));
  EXPECT_FALSE(queue.push(messages.add(5)));
  EXPECT_FALSE(queue.push(messages.add(0)));
  EXPECT_EQ(cut(), (std::vector<std::uint32_t>{64, 5, 0}));
  EXPECT_FALSE(queue.has_unsent());
}

// CV-11: 160 bytes in two messages.
OutMessage& make_train(OutMessage& m) {
  m.record.messages = 2;
  m.lengths = {100, 50};  // 104 and 56 bytes
  return m;
}

TEST_F(MessageQueueTest, TrainIsOneRecord) {
  queue.push(make_train(messages.add(160)));
  queue.push(messages.add(64));
  EXPECT_EQ(cut(), (std::vector<std::uint32_t>{160, 64}));
  RecordReader reader(ByteView(last_packet).subspan(kPacketHeaderBytes), 2);
  Record r;
  ByteView bytes;
  ASSERT_TRUE(reader.next(&r, &bytes));
  EXPECT_EQ(r.messages, 2u);
  EXPECT_EQ(reader.lengths(r), (TrainLengths{100, 50}));
  ASSERT_TRUE(reader.next(&r, &bytes));
  EXPECT_EQ(r.messages, 0u);
  EXPECT_EQ(queue.messages(), 3u) << "each counts";
  EXPECT_EQ(queue.queued_messages(), 3u);
}

TEST_F(MessageQueueTest, TrainIsNeverCut) {
  const auto room_left =
      static_cast<std::uint32_t>(kPacketBytes - kMaxPacketHeaderBytes - 2 * kWholeRecordBytes - 160);
  queue.push(messages.add(room_left));  // the train would fit without its table
  queue.push(make_train(messages.add(160)));
  EXPECT_EQ(cut(), (std::vector<std::uint32_t>{room_left}));
  EXPECT_EQ(cut(), (std::vector<std::uint32_t>{160}));
}

TEST_F(MessageQueueTest, TrainIsSentAgainAsItWas) {
  queue.push(messages.add(8));
  queue.push(make_train(messages.add(160)));
  PacketWriter packet(room, PacketHeader{});
  const PacketContent content = queue.cut(packet);
  (void)lengths(packet, content);
  const std::vector<std::byte> first = last_packet;
  std::fill(room.begin(), room.end(), std::byte{0xee});
  PacketWriter again(room, PacketHeader{});
  MessageQueue::write(content, again);
  (void)lengths(again, content);
  EXPECT_EQ(last_packet, first);
}

// All that it would hold if nothing were left where it lies, once the bytes are moved.
TEST(SealedPacketWriter, LongRecordsAreNotedWhileThereIsRoomAndOthersCopied) {
  constexpr std::size_t kRoomBytes = 32768;
  Messages messages;
  MessageQueue queue{kRoomBytes};
  for (int i = 0; i < 20; ++i) queue.push(messages.add(i % 2 == 0 ? 700 : 1001));
  queue.push(messages.add(511));
  std::vector<std::byte> plain(kRoomBytes, std::byte{0xee}), sealed(kRoomBytes, std::byte{0xee});
  UnmovedRecords unmoved;
  PacketWriter packet(sealed, PacketHeader{}, &unmoved);
  const PacketContent content = queue.cut(packet);
  ASSERT_EQ(content.records, 21u);
  PacketWriter whole(plain, PacketHeader{});
  MessageQueue::write(content, whole);
  std::uint64_t sum = 0;
  const std::size_t length = whole.finish(content.records, true, &sum);
  ASSERT_EQ(packet.finish(content.records, true, &sum), length);
  ASSERT_EQ(unmoved.parts().size(), 16u);
  for (const PartElsewhere& part : unmoved.parts()) {
    EXPECT_EQ(*part.to, std::byte{0xee});
    std::copy(part.from.begin(), part.from.end(), part.to);
  }
  EXPECT_EQ(sealed, plain);
}

TEST_F(MessageQueueTest, MessageLongerThanAPacketIsCutAtGranules) {
  queue.push(messages.add(3000));
  const std::vector<std::uint32_t> first = cut();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0] % kCutBytes, 0u);
  EXPECT_EQ(cut(), first);  // equal parts
  EXPECT_EQ(cut(), (std::vector<std::uint32_t>{3000 - 2 * first[0]}));
  EXPECT_FALSE(queue.has_unsent());
}

TEST_F(MessageQueueTest, RetransmittedPacketIsWrittenTheSame) {
  queue.push(messages.add(3000));
  queue.push(messages.add(700));
  while (queue.has_unsent()) {
    const Seq seq = window.next();
    const std::vector<std::uint32_t> lengths_before = cut();
    const std::vector<std::byte> before = last_packet;
    PacketWriter packet(room, PacketHeader{});
    MessageQueue::write(window.content(seq), packet);
    EXPECT_EQ(lengths(packet, window.content(seq)), lengths_before);
    EXPECT_EQ(last_packet, before);
  }
}

TEST_F(MessageQueueTest, MessageIsFinishedWhenItsLastPartIsAcknowledged) {
  const OutMessage& m = messages.add(2000);
  queue.push(const_cast<OutMessage&>(m));
  cut();
  cut();
  acknowledge(Seq(0));
  EXPECT_EQ(queue.take_finished(), nullptr);
  EXPECT_EQ(queue.queued_messages(), 1u);
  acknowledge(Seq(1));
  EXPECT_EQ(listed(queue.take_finished()), (List{&m}));
  EXPECT_FALSE(m.failed);
  EXPECT_EQ(queue.take_finished(), nullptr);
  EXPECT_EQ(queue.queued_messages(), 0u);
  EXPECT_EQ(queue.queued_bytes(), 0u);
  EXPECT_EQ(queue.messages(), 1u);
  EXPECT_EQ(queue.bytes(), 2000u);
}

TEST_F(MessageQueueTest, EmptyMessageIsFinishedByItsAcknowledgement) {
  OutMessage& m = messages.add(0);
  queue.push(m);
  cut();
  EXPECT_EQ(queue.take_finished(), nullptr);
  acknowledge(Seq(0));
  EXPECT_EQ(listed(queue.take_finished()), (List{&m}));
}

TEST_F(MessageQueueTest, FailAllFailsEachUnacknowledgedMessageOnceOldestFirst) {
  OutMessage& acknowledged = messages.add(64);
  OutMessage& in_flight = messages.add(64);
  OutMessage& partly_sent = messages.add(3000);
  OutMessage& unsent = messages.add(64);
  queue.push(acknowledged);
  cut();
  queue.push(in_flight);
  cut();
  queue.push(partly_sent);
  queue.push(unsent);
  cut();
  acknowledge(Seq(0));
  queue.fail_all(window);
  EXPECT_EQ(listed(queue.take_finished()), (List{&acknowledged, &in_flight, &partly_sent, &unsent}));
  EXPECT_FALSE(acknowledged.failed);
  EXPECT_TRUE(in_flight.failed && partly_sent.failed && unsent.failed);
  EXPECT_FALSE(queue.has_unsent());
  EXPECT_EQ(queue.queued_messages(), 0u);
  EXPECT_EQ(queue.queued_bytes(), 0u);
}

TEST_F(MessageQueueTest, TakeBackReturnsUnacknowledgedMessagesUnchanged) {
  OutMessage& acknowledged = messages.add(64);
  OutMessage& partly_acknowledged = messages.add(3000);
  OutMessage& unsent = messages.add(64);
  queue.push(acknowledged);
  cut();
  queue.push(partly_acknowledged);
  queue.push(unsent);
  cut();
  cut();
  acknowledge(Seq(1));
  EXPECT_EQ(listed(queue.take_back(window)), (List{&partly_acknowledged, &unsent}));
  for (const OutMessage* m : {&partly_acknowledged, &unsent}) {
    EXPECT_EQ(m->unacknowledged, 0u);
    EXPECT_FALSE(m->failed);
    EXPECT_FALSE(m->record.maybe_duplicate);
  }
  EXPECT_FALSE(queue.has_unsent());
  EXPECT_EQ(listed(queue.take_finished()), (List{&acknowledged}));
  EXPECT_EQ(queue.queued_messages(), 2u);  // until the driver's load is told otherwise
  queue.forget_load();
  EXPECT_EQ(queue.queued_messages(), 0u);
}

TEST_F(MessageQueueTest, PushAgainSendsFromTheStartAndMarksEach) {
  OutMessage& a = messages.add(3000);
  OutMessage& b = messages.add(64);
  queue.push(a);
  queue.push(b);
  const std::vector<std::uint32_t> first = cut();
  OutMessage* const back = queue.take_back(window);
  window = PacketWindow(256);
  queue.push_again(back);
  EXPECT_TRUE(a.record.maybe_duplicate && b.record.maybe_duplicate);
  EXPECT_EQ(cut(), first);
  cut();
  cut();
  EXPECT_FALSE(queue.has_unsent());
  OutMessage& c = messages.add(1);
  EXPECT_TRUE(queue.push(c));
  EXPECT_FALSE(c.record.maybe_duplicate);
}

}  // namespace
}  // namespace braid::stack
