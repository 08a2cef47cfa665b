#include "proxy/daemon/proxy_channel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "convergence/ports.h"
#include "convergence/position.h"
#include "tests/proxy/channel_memory.h"

namespace braid::proxy::test {
namespace {

TEST(ProxyChannel, ClientGetsMessagesBackInTheOrderInWhichTheyWereTaken) {
  ChannelMemory memory;
  SendProducer client = memory.sender();
  const auto channel = memory.channel();
  hand_over(client, 3);
  ASSERT_EQ(channel->send.readable(), 3u);
  SendDescriptor d;
  Outgoing& first = channel->take(&d);
  Outgoing& second = channel->take(&d);
  Outgoing& third = channel->take(&d);
  EXPECT_EQ(channel->unfinished, 3u);

  channel->finish(second);
  EXPECT_FALSE(channel->release()) << "the first is not finished";
  channel->finish(first);
  EXPECT_TRUE(channel->release());
  (void)client.refresh();
  EXPECT_EQ(client.consumed(), 2u);
  channel->finish(third);
  EXPECT_TRUE(channel->release());
  EXPECT_FALSE(channel->release());
  EXPECT_EQ(channel->unfinished, 0u);
}

TEST(ProxyChannel, MessageHasTheFieldsOfItsDescriptor) {
  ChannelMemory memory;
  SendProducer client = memory.sender();
  const auto channel = memory.channel();
  SendDescriptor sent = whole_message(100, 7);
  sent.data_offset = 128;
  sent.skip = 3;
  client.push(sent);
  client.publish();
  ASSERT_EQ(channel->send.readable(), 1u);
  SendDescriptor d;
  Outgoing& message = channel->take(&d);
  PortEntry port;
  port.id = PortId(5);
  port.peer = ClusterId(2);
  port.peer_port = PortId(8);
  channel->describe(message, d, port);
  EXPECT_EQ(message.record.source, PortId(5));
  EXPECT_EQ(message.record.destination, PortId(8));
  EXPECT_EQ(message.record.position, Position(7));
  EXPECT_EQ(message.record.message_bytes, 100u);
  EXPECT_EQ(message.record.skip, 3);
  EXPECT_FALSE(message.record.maybe_duplicate);
  EXPECT_EQ(message.data, channel->data + 128);
  EXPECT_EQ(message.bytes, 100u);
  EXPECT_EQ(message.to, ClusterId(2));
  EXPECT_EQ(message.channel, channel.get());
}

// Only messages that another proxy may have sent before are marked (FO-4).
TEST(ProxyChannel, ResumedChannelMarksWhatWasPublishedBefore) {
  ChannelMemory memory;
  SendProducer client = memory.sender();
  const auto before = memory.channel();
  hand_over(client, 2);
  ASSERT_EQ(before->send.readable(), 2u);
  SendDescriptor d;
  (void)before->take(&d);

  const auto channel = memory.channel(0, true);
  hand_over(client, 1);
  for (const bool maybe_duplicate : {true, true, false}) {
    ASSERT_GT(channel->send.readable(), 0u);
    EXPECT_EQ(channel->take(&d).record.maybe_duplicate, maybe_duplicate);
  }
}

TEST(ProxyChannel, TakesDescriptorsOnlyWhileItServesTheLane) {
  ChannelMemory memory;
  const auto channel = memory.channel();
  EXPECT_TRUE(channel->takes_descriptors());
  for (bool Channel::*const reason : {&Channel::leaving, &Channel::closed, &Channel::detaching}) {
    channel.get()->*reason = true;
    EXPECT_FALSE(channel->takes_descriptors());
    channel.get()->*reason = false;
  }
  channel->sends = false;
  EXPECT_FALSE(channel->takes_descriptors());
  channel->resume_sending();
  EXPECT_TRUE(channel->takes_descriptors());
}

TEST(ProxyChannel, PermitsWhatAClientsLibrarySends) {
  ChannelMemory memory;
  const auto channel = memory.channel();
  EXPECT_TRUE(channel->permits(whole_message(64)));
  EXPECT_TRUE(channel->permits(whole_message(0)));
  SendDescriptor credit{};
  credit.kind = static_cast<std::uint8_t>(stack::RecordKind::kCredit);
  EXPECT_TRUE(channel->permits(credit));
  SendDescriptor piece = whole_message(64);
  piece.message_bytes = 4096;
  piece.message_offset = 128;
  EXPECT_TRUE(channel->permits(piece));
  piece.message_offset = 4096 - 64;
  EXPECT_TRUE(channel->permits(piece)) << "the last";
}

TEST(ProxyChannel, RefusesDescriptorsThatNoLibraryWrites) {
  ChannelMemory memory;
  const auto channel = memory.channel();
  const auto refused = [&](auto&& change) {
    SendDescriptor d = whole_message(64);
    change(d);
    return !channel->permits(d);
  };
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.kind = 3; })) << "the control plane's";
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.data_offset = kSendBytes - 63; })) << "beyond its data area";
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.data_offset = 0xffffffff; })) << "an overflow";
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.message_bytes = 63; })) << "more than its message";
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.message_offset = 64; }))
      << "a whole message behind its beginning";
  EXPECT_TRUE(refused([](SendDescriptor& d) {
    d.message_bytes = 128;
    d.message_offset = 63;
  })) << "an offset inside a granule";
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.message_bytes = convergence::kMaxMessageBytes + 1; }));
  EXPECT_TRUE(refused([](SendDescriptor& d) {
    d.kind = static_cast<std::uint8_t>(stack::RecordKind::kCredit);
  })) << "a credit with bytes";
}

// --- trains (CV-11)

class TrainChannel : public ::testing::Test {
 protected:
  static constexpr stack::TrainLengths kLengths = {64, 5};

  static SendDescriptor train() {
    SendDescriptor d = whole_message(72);
    d.messages = 2;
    return d;
  }
  void hand_over_train(const SendDescriptor& d) {
    sender_.push(d);
    sender_.push(std::bit_cast<SendDescriptor>(kLengths));
    sender_.publish();
  }

  ChannelMemory memory_{{.messages = 4, .bytes = 256}};
  std::unique_ptr<Channel> channel_ = memory_.channel();
  SendProducer sender_ = memory_.sender();
};

TEST_F(TrainChannel, IsOneMessageToTheProxyAndItsEntriesComeBackTogether) {
  hand_over_train(train());
  hand_over(sender_, 1);
  ASSERT_EQ(channel_->send.readable(), 3u);
  SendDescriptor d;
  Outgoing& first = channel_->take(&d);
  EXPECT_EQ(channel_->send.taken(), 2u);
  ASSERT_TRUE(channel_->permits(d, first.lengths));
  PortEntry port;
  channel_->describe(first, d, port);
  EXPECT_EQ(first.record.messages, 2u);
  EXPECT_EQ(first.lengths, kLengths);
  EXPECT_EQ(first.bytes, 72u);
  Outgoing& second = channel_->take(&d);
  channel_->describe(second, d, port);
  EXPECT_EQ(second.record.messages, 0u);
  EXPECT_EQ(channel_->unfinished, 2u);

  channel_->finish(second);
  EXPECT_FALSE(channel_->release());
  channel_->finish(first);
  EXPECT_TRUE(channel_->release());
  EXPECT_EQ(channel_->send.released(), 3u);
  EXPECT_EQ(channel_->unfinished, 0u);
}

TEST_F(TrainChannel, LengthsAreThoseOfTheCopy) {
  hand_over_train(train());
  SendDescriptor d;
  ASSERT_GT(channel_->send.readable(), 0u);
  const Outgoing& message = channel_->take(&d);
  std::memset(memory_.get() + memory_.geometry().send_ring(0, 0) + sizeof(RingControl), 0xee, 64);
  EXPECT_EQ(message.lengths, kLengths);
}

TEST_F(TrainChannel, LengthsThatAreMissingAreRefused) {
  sender_.push(train());
  sender_.publish();
  SendDescriptor d;
  ASSERT_EQ(channel_->send.readable(), 1u);
  const Outgoing& message = channel_->take(&d);
  EXPECT_FALSE(channel_->permits(d, message.lengths));
}

TEST_F(TrainChannel, RefusesTrainsThatNoLibraryWrites) {
  EXPECT_TRUE(channel_->permits(train(), kLengths));
  const auto refused = [&](auto&& change) {
    SendDescriptor d = train();
    stack::TrainLengths lengths = kLengths;
    change(d, lengths);
    return !channel_->permits(d, lengths);
  };
  using D = SendDescriptor;
  using Lengths = stack::TrainLengths;
  EXPECT_TRUE(refused([](D& d, Lengths&) { d.messages = 1; }));
  EXPECT_TRUE(refused([](D& d, Lengths&) { d.messages = 17; }));
  EXPECT_TRUE(refused([](D& d, Lengths& l) {
    d.messages = 5;
    l = {64, 1, 0, 0, 0};
  })) << "more than the limit";
  EXPECT_TRUE(refused([](D& d, Lengths& l) {
    d.bytes = 264;
    d.message_bytes = 264;
    l = {132, 128};
  })) << "longer than the limit";
  EXPECT_TRUE(refused([](D&, Lengths& l) { l[1] = 9; })) << "lengths that are not its bytes";
  EXPECT_TRUE(refused([](D&, Lengths& l) { l[0] = 65535; }));
  EXPECT_TRUE(refused([](D& d, Lengths&) { d.message_bytes = 80; }));
  EXPECT_TRUE(refused([](D& d, Lengths&) { d.message_offset = 64; }));
  EXPECT_TRUE(
      refused([](D& d, Lengths&) { d.kind = static_cast<std::uint8_t>(stack::RecordKind::kCredit); }));
  EXPECT_TRUE(refused([](D& d, Lengths&) { d.data_offset = kSendBytes - 71; }));
}

TEST(ProxyChannel, RefusesTrainsWhereThereAreNone) {
  ChannelMemory memory;
  SendDescriptor d = whole_message(72);
  d.messages = 2;
  EXPECT_FALSE(memory.channel()->permits(d, {64, 5}));
}

}  // namespace
}  // namespace braid::proxy::test
