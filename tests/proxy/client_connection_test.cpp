// A connection end, the table of an endpoint's connections, and what hands their messages over: each without
// a node. The test plays the proxy.
#include "proxy/client/connection.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "proxy/client/connection_table.h"
#include "proxy/client/mapping.h"
#include "proxy/client/message_handover.h"
#include "tests/proxy/client_memory.h"

namespace braid::proxy {
namespace {

using test::ConnectionFixture;

const std::vector<std::byte> kMessage(100, std::byte{7});

struct ConnectionTest : testing::Test, ConnectionFixture {
  std::unique_ptr<Connection> c = connection();
  SendConsumer proxy = memory.send_consumer();

  std::vector<SendDescriptor> sent() {
    lanes.publish();
    std::vector<SendDescriptor> all;
    while (proxy.readable() > 0) all.push_back(proxy.take());
    return all;
  }
  void give_back() { proxy.release(proxy.taken()); }
};

TEST_F(ConnectionTest, MessageIsOneDescriptorWithItsBytes) {
  ASSERT_EQ(c->try_send(kMessage), SendStatus::kSent);
  const std::vector<SendDescriptor> all = sent();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].source_port, c->port().value());
  EXPECT_EQ(all[0].bytes, 100u);
  EXPECT_EQ(all[0].message_bytes, 100u);
  EXPECT_FALSE(all[0].many_pieces());
  const std::byte* const data = memory.begin() + memory.geometry().send_data(0, 0) + all[0].data_offset;
  EXPECT_TRUE(std::equal(kMessage.begin(), kMessage.end(), data));
  EXPECT_EQ(counts.messages_sent, 1u);
}

TEST_F(ConnectionTest, PositionsCountGranules) {
  for (const std::size_t bytes : {100u, 0u, 64u})
    ASSERT_EQ(c->try_send(ByteView(kMessage).first(bytes)), SendStatus::kSent);
  const std::vector<SendDescriptor> all = sent();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].position, 0u);
  EXPECT_EQ(all[1].position, 2u);
  EXPECT_EQ(all[2].position, 3u);
}

// --- trains (CV-1, CV-11)

struct TrainConnectionTest : testing::Test, ConnectionFixture {
  TrainConnectionTest() : ConnectionFixture(2, {.messages = 16, .bytes = 1024}) {}

  // The number of messages of each descriptor that a proxy is given, and of bytes.
  struct Sent {
    unsigned messages, bytes;
    bool operator==(const Sent&) const = default;
  };
  std::vector<Sent> sent(unsigned proxy) {
    lanes.publish();
    std::vector<Sent> all;
    SendConsumer& ring = rings[proxy];
    while (ring.readable() > 0) {
      const SendDescriptor d = ring.take();
      if (d.messages != 0) (void)ring.take();
      all.push_back({d.messages, d.bytes});
    }
    ring.release(ring.taken());
    return all;
  }
  using All = std::vector<Sent>;
  void send(std::size_t bytes, unsigned compute_node = 0) {
    ASSERT_EQ(c->try_send(ByteView(kMessage).first(bytes), compute_node), SendStatus::kSent);
  }

  std::unique_ptr<Connection> c = connection();
  SendConsumer rings[2] = {memory.send_consumer(0), memory.send_consumer(1)};
};

TEST_F(TrainConnectionTest, IsDispatchedAsOneUnit) {
  for (int i = 0; i < 20; ++i) send(64);
  for (int i = 0; i < 2; ++i) send(10);
  EXPECT_EQ(sent(0), (All{{16, 1024}}));
  EXPECT_EQ(sent(1), (All{{6, 4 * 64 + 2 * 16}}));
  send(64);
  EXPECT_EQ(sent(0), (All{{0, 64}})) << "the next proxy's turn";
  EXPECT_EQ(counts.messages_sent, 23u);
}

TEST_F(TrainConnectionTest, MessageThatIsTooLongOrFindsNoCreditJoinsNone) {
  send(64);
  const std::vector<std::byte> too_long(c->max_message_bytes() + 1);
  EXPECT_EQ(c->try_send(too_long), SendStatus::kTooLong);
  send(64);
  EXPECT_EQ(sent(0), (All{{2, 128}}));
  unsigned more = 0;
  while (c->try_send(ByteView(kMessage).first(64)) == SendStatus::kSent) {
    ++more;
    if (more % 8 == 0) (void)(sent(0), sent(1));
  }
  EXPECT_EQ(more, opened().peer_window_bytes / 64 - 2);
  EXPECT_EQ(counts.no_credit, 1u);
}

TEST_F(TrainConnectionTest, NothingJoinsAfterThePeerClosed) {
  send(64);
  memory.cell(0).state = PortState::kPeerClosed;
  EXPECT_EQ(c->try_send(ByteView(kMessage).first(64)), SendStatus::kClosed);
  EXPECT_EQ(sent(0), (All{{0, 64}}));
}

TEST_F(TrainConnectionTest, FixedDispatchKeepsComputeNodesApart) {
  c = std::make_unique<Connection>(context(), opened(), convergence::Dispatch::kFixed);
  send(8, 0);
  send(8, 1);
  send(8, 3);
  send(8, 0);
  EXPECT_EQ(sent(0), (All{{0, 8}, {0, 8}}));
  EXPECT_EQ(sent(1), (All{{2, 16}}));
}

TEST_F(TrainConnectionTest, CommittedMessagesJoinToo) {
  const auto commit = [&](std::uint32_t reserved, std::uint32_t bytes, std::uint8_t fill) {
    const MutableBytes room = c->reserve(reserved);
    ASSERT_EQ(room.size(), reserved);
    std::memset(room.data(), fill, bytes);
    c->commit(bytes);
  };
  commit(100, 10, 1);
  commit(100, 20, 2);
  commit(8, 8, 3);
  EXPECT_EQ(sent(0), (All{{3, 16 + 24 + 8}}));
  const std::byte* const data = memory.begin() + memory.geometry().send_data(0, 0);
  EXPECT_EQ(data[9], std::byte{1});
  EXPECT_EQ(data[10], std::byte{0});
  EXPECT_EQ(data[16], std::byte{2});
  EXPECT_EQ(data[40], std::byte{3});
}

TEST_F(TrainConnectionTest, CommitAfterAFlushIsAMessageOfItsOwn) {
  send(8);
  const MutableBytes room = c->reserve(10);
  ASSERT_EQ(room.size(), 10u);
  std::memset(room.data(), 7, 10);
  EXPECT_EQ(sent(0), (All{{0, 8}}));
  c->commit(10);
  lanes.publish();
  ASSERT_EQ(rings[0].readable(), 1u);
  const SendDescriptor d = rings[0].take();
  EXPECT_EQ(d.bytes, 10u);
  EXPECT_EQ(d.position, 1u);
  const std::byte* const data = memory.begin() + memory.geometry().send_data(0, 0) + d.data_offset;
  EXPECT_TRUE(std::all_of(data, data + 10, [](std::byte b) { return b == std::byte{7}; }));
}

TEST_F(TrainConnectionTest, MessagesOfTwoConnectionsDoNotMix) {
  const auto other = connection(2);  // it begins with the same proxy
  send(8);
  ASSERT_EQ(other->try_send(kMessage), SendStatus::kSent);
  send(8);
  EXPECT_EQ(sent(0), (All{{0, 8}, {0, 100}}));
  EXPECT_EQ(sent(1), (All{{0, 8}}));
}

TEST_F(ConnectionTest, CreditLimitsWhatIsSentAndItsReturnFreesIt) {
  const std::vector<std::byte> quarter(opened().peer_window_bytes / 4);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(c->try_send(quarter), SendStatus::kSent) << i;
  EXPECT_EQ(c->try_send(kMessage), SendStatus::kNoCredit);
  EXPECT_EQ(counts.no_credit, 1u);
  memory.cell(0).credit[0].store(sent()[1].position);  // the peer has consumed the first
  EXPECT_EQ(c->try_send(quarter), SendStatus::kSent);
  EXPECT_EQ(c->try_send(kMessage), SendStatus::kNoCredit);
}

TEST_F(ConnectionTest, CreditForUnsentMessagesIsIgnored) {
  const std::vector<std::byte> quarter(opened().peer_window_bytes / 4);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(c->try_send(quarter), SendStatus::kSent) << i;
  memory.cell(0).credit[0].store(1u << 20);
  EXPECT_EQ(c->try_send(kMessage), SendStatus::kNoCredit);
}

TEST_F(ConnectionTest, FullChannelRefusesUntilTheProxyReleases) {
  for (int i = 0; i < 8; ++i) ASSERT_EQ(c->try_send(kMessage), SendStatus::kSent) << i;
  EXPECT_EQ(c->try_send(kMessage), SendStatus::kChannelFull);
  EXPECT_EQ(counts.channel_full, 1u);
  (void)sent();
  give_back();
  EXPECT_EQ(c->try_send(kMessage), SendStatus::kSent);
}

TEST_F(ConnectionTest, CommitOfLessThanWasReservedTakesOnlyThat) {
  SendStatus status = SendStatus::kClosed;
  const MutableBytes room = c->reserve(1000, 0, &status);
  ASSERT_EQ(status, SendStatus::kSent);
  ASSERT_EQ(room.size(), 1000u);
  c->commit(10);
  ASSERT_EQ(c->try_send(kMessage), SendStatus::kSent);
  const std::vector<SendDescriptor> all = sent();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].bytes, 10u);
  EXPECT_EQ(all[1].position, 1u);
  EXPECT_EQ(all[1].data_offset, 64u);
}

TEST_F(ConnectionTest, UncommittedReservationIsVoid) {
  ASSERT_EQ(c->reserve(1000).size(), 1000u);
  ASSERT_EQ(c->try_send(kMessage), SendStatus::kSent);
  EXPECT_EQ(sent().at(0).position, 0u);
}

TEST_F(ConnectionTest, MessageThatIsTooLongIsRefusedWhole) {
  const std::vector<std::byte> large(c->max_message_bytes() + 1);
  EXPECT_EQ(c->try_send(large), SendStatus::kTooLong);
  EXPECT_TRUE(sent().empty());
}

TEST_F(ConnectionTest, SendCutsALongMessageIntoPiecesOfOneMessage) {
  const std::vector<std::byte> large(opened().peer_window_bytes / 2 + 64);
  ASSERT_EQ(c->send(large, 1_s), SendStatus::kSent);
  const std::vector<SendDescriptor> all = sent();
  ASSERT_EQ(all.size(), 3u);
  std::uint32_t offset = 0;
  for (const SendDescriptor& d : all) {
    EXPECT_TRUE(d.many_pieces());
    EXPECT_EQ(d.message, all[0].position);
    EXPECT_EQ(d.message_bytes, large.size());
    EXPECT_EQ(d.message_offset, offset);
    offset += d.bytes;
  }
  EXPECT_EQ(offset, large.size());
  EXPECT_EQ(counts.messages_sent, 1u);
}

// A part of the message has left, so the connection cannot go on.
TEST_F(ConnectionTest, SendThatTimesOutHalfWayClosesTheConnection) {
  const std::vector<std::byte> large(8 * c->max_message_bytes());
  const Instant begin = service.time;
  EXPECT_EQ(c->send(large, 50_ms), SendStatus::kTimeout);
  EXPECT_GE(service.time - begin, 50_ms);
  EXPECT_EQ(c->state(), ConnectionState::kPeerClosed);
  EXPECT_EQ(c->try_send(kMessage), SendStatus::kClosed);
}

TEST_F(ConnectionTest, SendThatTimesOutBeforeItsFirstPieceLeavesTheConnectionOpen) {
  for (int i = 0; i < 8; ++i) ASSERT_EQ(c->try_send(kMessage), SendStatus::kSent) << i;
  EXPECT_EQ(c->send(kMessage, 5_ms), SendStatus::kTimeout);
  EXPECT_EQ(c->state(), ConnectionState::kOpen);
}

TEST_F(ConnectionTest, StateFollowsTheCellAndTheService) {
  EXPECT_EQ(c->state(), ConnectionState::kOpen);
  service.lives = false;
  EXPECT_EQ(c->state(), ConnectionState::kServiceLost);
  memory.cell(0).state.store(PortState::kPeerLost);
  EXPECT_EQ(c->state(), ConnectionState::kPeerLost);
  memory.cell(0).state.store(PortState::kPeerClosed);
  EXPECT_EQ(c->state(), ConnectionState::kPeerClosed);
  EXPECT_EQ(c->try_send(kMessage), SendStatus::kClosed);
}

TEST_F(ConnectionTest, ProxyReportsCorruptionInTheCell) {  // CV-10
  EXPECT_FALSE(c->corrupted());
  memory.cell(0).corrupted.store(1);
  EXPECT_TRUE(c->corrupted());
}

TEST(ConnectionDispatch, RoundRobinUsesOneLaneAfterTheOther) {
  ConnectionFixture f(3);
  const std::unique_ptr<Connection> c = f.connection();
  std::vector<unsigned> lanes;
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(c->try_send(kMessage), SendStatus::kSent);
    lanes.push_back(c->last_lane());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(lanes[i], lanes[i + 3]);
    EXPECT_NE(lanes[i], lanes[(i + 1) % 3]);
  }
}

struct ConnectionTableTest : testing::Test, ConnectionFixture {
  ConnectionTable table;
};

TEST_F(ConnectionTableTest, FindsByTheWholePort) {
  Connection* const first = table.add(connection(0));
  Connection* const second = table.add(connection(1));
  EXPECT_EQ(table.find(first->port()), first);
  EXPECT_EQ(table.find(second->port()), second);
  EXPECT_EQ(table.find(PortId(first->port().value() + (1u << 16))), nullptr);  // another use of its index
  EXPECT_EQ(table.find(PortId(2)), nullptr);
  EXPECT_EQ(table.find(PortId(0xffff)), nullptr);
  EXPECT_EQ(table.all().size(), 2u);
}

TEST_F(ConnectionTableTest, RemembersTheLastRemovedPortOfAnIndex) {
  Connection* const first = table.add(connection(0));
  const PortId port = first->port();
  EXPECT_FALSE(table.was_removed(port));
  EXPECT_EQ(table.remove(first).get(), first);
  EXPECT_EQ(table.find(port), nullptr);
  EXPECT_TRUE(table.was_removed(port));
  EXPECT_FALSE(table.was_removed(PortId(port.value() + (1u << 16))));
  EXPECT_FALSE(table.was_removed(PortId(0xffff)));
  EXPECT_TRUE(table.all().empty());
}

TEST_F(ConnectionTableTest, GrowsToTheGreatestIndex) {
  control::Opened o = opened(0);
  o.port = (3u << 16) | 1000;
  Connection* const far =
      table.add(std::make_unique<Connection>(context(), o, convergence::Dispatch::kRoundRobin));
  EXPECT_EQ(table.find(far->port()), far);
  EXPECT_EQ(table.find(PortId((3u << 16) | 999)), nullptr);
}

struct MessageHandoverTest : testing::Test, ConnectionFixture {
  std::unique_ptr<Connection> c = connection();
  MessageHandover handover;
};

TEST_F(MessageHandoverTest, KeepsArrivalsBeyondTheLimit) {
  handover.begin();
  EXPECT_EQ(handover.run(
                *c, ByteView(kMessage), [](Connection&, ByteView) { FAIL(); }, 0),
            0);
  handover.end();
  ASSERT_EQ(handover.left_over(), c.get());
  std::size_t bytes = 0;
  handover.begin();
  const int handed = handover.resume([&](Connection&, ByteView message) { bytes = message.size(); }, 1);
  handover.end();
  EXPECT_EQ(handed, 1);
  EXPECT_EQ(bytes, kMessage.size());
  EXPECT_EQ(handover.left_over(), nullptr);
}

TEST_F(MessageHandoverTest, ConnectionClosedByItsHandlerLivesUntilTheEnd) {
  Connection* const raw = c.get();
  handover.begin();
  const int handed = handover.run(
      *raw, ByteView(kMessage), [&](Connection&, ByteView) { handover.closed(std::move(c)); }, 64);
  EXPECT_EQ(handed, 1);
  EXPECT_EQ(raw->port().value(), 7u << 16);  // not freed: the sanitizer would tell
  handover.end();
}

TEST_F(MessageHandoverTest, ArrivalsOfAClosedConnectionAreDropped) {
  handover.begin();
  (void)handover.run(
      *c, ByteView(kMessage), [](Connection&, ByteView) {}, 0);
  handover.end();
  handover.closed(std::move(c));
  EXPECT_EQ(handover.left_over(), nullptr);
}

TEST(MessageHandoverDeathTest, HandlerMayNotBeginAnother) {
  MessageHandover handover;
  handover.begin();
  EXPECT_DEATH(handover.begin(), "active");
}

TEST(Mapping, MapsTheMemoryOfTheDescriptor) {
  const int fd = ::memfd_create("braid-test", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 4096), 0);
  const char text[] = "shared";
  ASSERT_EQ(::pwrite(fd, text, sizeof text, 100), static_cast<ssize_t>(sizeof text));
  Result<Mapping> mapping = Mapping::of(fd, 4096, Mapping::Access::kReadAndWrite);
  ASSERT_TRUE(mapping.ok()) << mapping.error().text;
  EXPECT_STREQ(reinterpret_cast<const char*>(mapping->begin() + 100), text);
  mapping->begin()[0] = std::byte{'x'};
  char first = 0;
  ASSERT_EQ(::pread(fd, &first, 1, 0), 1);
  EXPECT_EQ(first, 'x');
  ::close(fd);
  const Mapping moved = std::move(mapping).value();
  EXPECT_EQ(moved.begin()[0], std::byte{'x'});
}

TEST(Mapping, RefusesAFileThatIsTooShort) {
  const int fd = ::memfd_create("braid-test", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 4095), 0);
  const Result<Mapping> mapping = Mapping::of(fd, 4096, Mapping::Access::kRead);
  ASSERT_FALSE(mapping.ok());
  EXPECT_EQ(mapping.error().text, "it has 4095 bytes, 4096 were expected");
  ::close(fd);
  EXPECT_FALSE(Mapping::of(-1, 4096, Mapping::Access::kRead).ok());
}

}  // namespace
}  // namespace braid::proxy
