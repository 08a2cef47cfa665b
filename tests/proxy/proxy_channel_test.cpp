#include "proxy/daemon/proxy_channel.h"

#include <gtest/gtest.h>

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
  piece.many_pieces = 1;
  piece.message_bytes = 4096;
  piece.message_offset = 128;
  EXPECT_TRUE(channel->permits(piece));
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
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.bytes = d.message_bytes = stack::kMaxPieceBytes + 1; }));
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.message_bytes = 65; })) << "half a message in one piece";
  EXPECT_TRUE(refused([](SendDescriptor& d) { d.many_pieces = 2; }));
  EXPECT_TRUE(refused([](SendDescriptor& d) {
    d.many_pieces = 1;
    d.message_bytes = 128;
    d.message_offset = 63;
  })) << "an offset inside a granule";
  EXPECT_TRUE(refused([](SendDescriptor& d) {
    d.many_pieces = 1;
    d.message_bytes = convergence::kMaxMessageBytes + 1;
  }));
  EXPECT_TRUE(refused([](SendDescriptor& d) {
    d.kind = static_cast<std::uint8_t>(stack::RecordKind::kCredit);
  })) << "a credit with bytes";
}

}  // namespace
}  // namespace braid::proxy::test
