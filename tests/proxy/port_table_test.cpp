#include "proxy/daemon/port_table.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <vector>

#include "proxy/daemon/proxy_state.h"
#include "tests/proxy/channel_memory.h"

namespace braid::proxy::test {
namespace {

using Delivery = PortTable::Delivery;

constexpr std::uint32_t kWindowGranules = 16;
constexpr ClusterId kPeer{1};

// One open connection: our port 5, the peer's port 8.
class PortTableTest : public ::testing::Test {
 protected:
  void SetUp() override { table_.install(entry(PortId(5), PortId(8))); }

  PortEntry entry(PortId id, PortId peer_port) {
    PortEntry port;
    port.id = id;
    port.peer = kPeer;
    port.peer_port = peer_port;
    port.peer_incarnation = 77;
    port.channel = channel_.get();
    port.window = memory_.window();
    port.window_granules = kWindowGranules;
    port.cell = &memory_.cell();
    port.reported = reported_.data();
    return port;
  }
  static stack::Record record(std::uint32_t position, bool maybe_duplicate = false) {
    stack::Record r;
    r.source = PortId(8);
    r.destination = PortId(5);
    r.position = r.message = Position(position);
    r.bytes = 64;
    r.message_bytes = 64;
    r.maybe_duplicate = maybe_duplicate;
    return r;
  }
  Delivery deliver(const stack::Record& r, Instant now = Instant()) {
    PortEntry* const port = table_.destination(now, kPeer, r);
    CHECK(port != nullptr);
    return table_.deliver(now, *port, r, bytes_);
  }
  const ProtocolTraffic& received() { return protocols_[stack::kMessages].traffic; }
  bool corrupted() { return memory_.cell().corrupted.load() != 0; }
  // Positions of the arrivals that the client sees.
  std::vector<std::uint32_t> arrivals() {
    table_.publish();
    std::vector<std::uint32_t> positions;
    while (client_.readable() > 0) positions.push_back(client_.take().position);
    return positions;
  }

  ChannelMemory memory_;
  std::unique_ptr<Channel> channel_ = memory_.channel();
  ArrivalConsumer client_ = memory_.receiver();
  std::array<std::uint64_t, reported_words(kWindowGranules)> reported_{};
  std::array<std::byte, 64> bytes_{std::byte{42}};
  ProxyCounters counters_;
  ProxyStates states_;
  Protocols registered_;
  ProtocolSwitch protocols_{registered_};
  PortTable table_{64, states_[0].writing, counters_, protocols_};
};

TEST_F(PortTableTest, RecordGoesToItsPlaceAndIsSeenWhenPublished) {
  EXPECT_EQ(deliver(record(3)), Delivery::kDelivered);
  EXPECT_EQ(memory_.window()[3 * 64], std::byte{42});
  EXPECT_EQ(client_.readable(), 0u);
  EXPECT_EQ(arrivals(), std::vector<std::uint32_t>{3});
  EXPECT_EQ(received().received, 1u);
  EXPECT_EQ(received().received_bytes, 64u);
}

// A connection's end takes records of its protocol only; whose they are not is counted for theirs.
TEST_F(PortTableTest, RecordOfAnotherProtocolIsRefusedAndCorruptsTheConnection) {  // PS-3, CV-10
  stack::Record r = record(3);
  r.protocol = stack::kSharedMemory;
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_TRUE(corrupted());
  EXPECT_EQ(protocols_[stack::kSharedMemory].traffic.refused, 1u);
  r.protocol = stack::ProtocolId(200);
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_EQ(protocols_[stack::ProtocolId(200)].traffic.refused, 1u);
  EXPECT_EQ(counters_.no_port.get(), 0u);
  r.protocol = stack::kMessages;
  r.destination = PortId(6);
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_EQ(counters_.no_port.get(), 1u) << "the protocol is right and the port is not";
}

// --- trains (CV-11)

class DeliveredTrain : public PortTableTest {
 protected:
  static constexpr stack::TrainLengths kLengths = {64, 70, 0};  // of 1, 2 and 1 granules

  // Three messages at `position`, whose bytes are 1, 2, ...
  static stack::Record train(std::uint32_t position, bool maybe_duplicate = false) {
    stack::Record r = record(position, maybe_duplicate);
    r.messages = 3;
    r.bytes = 64 + 72;
    r.message_bytes = r.bytes;
    return r;
  }
  Delivery deliver_train(const stack::Record& r, Instant now = Instant()) {
    PortEntry* const port = table_.destination(now, kPeer, r);
    CHECK(port != nullptr);
    std::array<std::byte, 64 + 72> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i + 1);
    delivered_.clear();
    if (table_.deliver_train(*port, r, bytes, kLengths)) return Delivery::kDelivered;
    return table_.deliver_one_by_one(now, *port, r, bytes, kLengths, [&](const stack::Record& message) {
      delivered_.push_back(message.position.value());
      EXPECT_EQ(message.messages, 0u);
      EXPECT_TRUE(message.whole());
    });
  }
  using Positions = std::vector<std::uint32_t>;
  Positions delivered_;  // one by one, by the last deliver_train()
};

TEST_F(DeliveredTrain, MessagesLieInTheirPlacesAndShareADescriptor) {
  EXPECT_EQ(deliver_train(train(3)), Delivery::kDelivered);
  EXPECT_EQ(delivered_, Positions{}) << "not one by one";
  EXPECT_EQ(memory_.window()[3 * 64], std::byte{1});
  EXPECT_EQ(memory_.window()[4 * 64], std::byte{65});
  EXPECT_EQ(memory_.window()[4 * 64 + 69], std::byte{134});
  EXPECT_EQ(memory_.window()[4 * 64 + 70], std::byte{0}) << "behind the message";
  table_.publish();
  ASSERT_EQ(client_.readable(), 2u);
  const ArrivalDescriptor d = client_.take();
  EXPECT_EQ(d.position, 3u);
  EXPECT_EQ(d.messages, 3u);
  EXPECT_EQ(std::bit_cast<stack::TrainLengths>(client_.take()), kLengths);
  EXPECT_EQ(counters_.trains_received.get(), 1u);
  EXPECT_EQ(received().received, 3u);
  EXPECT_EQ(received().received_bytes, 134u);
}

// Messages of whole granules lie in the record as they do in the window; where they begin are two words of bits.
TEST_F(DeliveredTrain, MessagesOfWholeGranulesAreDeliveredAcrossAWordOfTheWindow) {
  constexpr stack::TrainLengths kWhole = {64, 128, 64};
  std::vector<std::byte> window(128 * 64);
  std::array<std::uint64_t, 2> reported{};
  PortEntry entry = *table_.find(record(0).destination);
  entry.window = window.data();
  entry.window_granules = 128;
  entry.reported = reported.data();
  table_.install(entry);
  stack::Record r = record(62);
  r.messages = 3;
  r.bytes = 256;
  r.message_bytes = 256;
  std::array<std::byte, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  PortEntry* const port = table_.destination(Instant(), kPeer, r);
  ASSERT_NE(port, nullptr);
  ASSERT_TRUE(table_.deliver_train(*port, r, bytes, kWhole));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), window.begin() + 62 * 64));
  EXPECT_EQ(received().received_bytes, 256u);
  EXPECT_EQ(reported[0], std::uint64_t{3} << 62);
  EXPECT_EQ(reported[1], 2u) << "the second message takes two granules";
  EXPECT_FALSE(table_.deliver_train(*port, r, bytes, kWhole));
  r.position = Position(63);
  EXPECT_FALSE(table_.deliver_train(*port, r, bytes, kWhole)) << "its first message is there";
  EXPECT_EQ(reported[0], std::uint64_t{3} << 62);
  EXPECT_EQ(reported[1], 2u);
}

TEST_F(DeliveredTrain, DuplicateOfEachMessageIsDropped) {
  EXPECT_EQ(deliver_train(train(3)), Delivery::kDelivered);
  EXPECT_EQ(deliver(record(4, true)), Delivery::kDropped);
  EXPECT_EQ(deliver_train(train(3, true)), Delivery::kDropped);
  EXPECT_EQ(delivered_, Positions{});
  EXPECT_FALSE(corrupted());
  EXPECT_EQ(received().received, 3u);
  EXPECT_EQ(deliver_train(train(3)), Delivery::kDropped);
  EXPECT_TRUE(corrupted()) << "no other proxy has sent it again";
}

TEST_F(DeliveredTrain, MessagesThatAreMissingAreDeliveredOneByOne) {
  EXPECT_EQ(deliver(record(4)), Delivery::kDelivered);
  EXPECT_EQ(deliver_train(train(3, true)), Delivery::kDelivered);
  EXPECT_EQ(delivered_, (Positions{3, 6}));
  EXPECT_EQ(arrivals(), (Positions{4, 3, 6}));
  EXPECT_FALSE(corrupted());
}

TEST_F(DeliveredTrain, ConsumedMessagesAreDropped) {
  memory_.cell().consumed = 5;
  EXPECT_EQ(deliver_train(train(3, true)), Delivery::kDelivered);
  EXPECT_EQ(delivered_, Positions{6});
}

TEST_F(DeliveredTrain, WaitsForRoomAndIsThenWhole) {
  for (std::uint32_t i = 0; i < 7; ++i) ASSERT_EQ(deliver(record(i)), Delivery::kDelivered);
  EXPECT_EQ(deliver_train(train(8)), Delivery::kNoRoom);
  EXPECT_EQ(delivered_, Positions{8}) << "there was room for one";
  table_.packet_turned_away();
  EXPECT_EQ(arrivals().size(), 8u);
  client_.release(client_.taken());
  EXPECT_EQ(deliver_train(train(8)), Delivery::kDelivered);
  EXPECT_EQ(delivered_, (Positions{9, 11}));
  EXPECT_EQ(arrivals(), (Positions{9, 11}));
  EXPECT_FALSE(corrupted());
}

TEST_F(DeliveredTrain, MessageOutsideTheWindowCorrupts) {
  EXPECT_EQ(deliver_train(train(kWindowGranules - 2)), Delivery::kDropped);
  EXPECT_TRUE(corrupted());
  EXPECT_EQ(delivered_, Positions{kWindowGranules - 2}) << "the first lies inside";
}

TEST_F(DeliveredTrain, NothingIsDeliveredToAClosedChannel) {
  channel_->closed = true;
  EXPECT_EQ(deliver_train(train(3)), Delivery::kDropped);
  EXPECT_EQ(delivered_, Positions{});
}

TEST_F(PortTableTest, RecordOfAnotherClusterOrPortHasNoDestination) {
  EXPECT_EQ(table_.destination(Instant(), ClusterId(2), record(0)), nullptr);
  stack::Record r = record(0);
  r.destination = PortId(6);
  r.source = PortId(9);
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_EQ(counters_.no_port.get(), 2u);
  EXPECT_FALSE(corrupted());
}

TEST_F(PortTableTest, RecordThatNamesOneEndOfAConnectionCorruptsIt) {  // CV-10
  stack::Record r = record(0);
  r.source = PortId(9);
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_TRUE(corrupted());

  memory_.cell().corrupted = 0;
  r = record(0);
  r.destination = PortId(6);
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_TRUE(corrupted()) << "its peer's port is known";
}

TEST_F(PortTableTest, RecordDoesNotReachAPortOfALostPeer) {
  table_.end_incarnation(kPeer, 77);
  EXPECT_TRUE(table_.find(PortId(5))->peer_lost);
  stack::Record r = record(0);
  r.destination = PortId(6);
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_FALSE(corrupted());
}

TEST_F(PortTableTest, OnlyPortsOfTheLostIncarnationEnd) {
  table_.end_incarnation(kPeer, 78);
  table_.end_incarnation(ClusterId(2), 77);
  EXPECT_FALSE(table_.find(PortId(5))->peer_lost);
}

TEST_F(PortTableTest, ForgedRecordsAreSearchedForOnceATurn) {
  stack::Record r = record(0);
  r.destination = PortId(6);
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  memory_.cell().corrupted = 0;
  EXPECT_EQ(table_.destination(Instant(), kPeer, r), nullptr);
  EXPECT_FALSE(corrupted()) << "the same turn";
  EXPECT_EQ(table_.destination(Instant() + 1_us, kPeer, r), nullptr);
  EXPECT_TRUE(corrupted());
}

TEST_F(PortTableTest, DuplicateOfAMarkedRecordIsDropped) {
  EXPECT_EQ(deliver(record(0)), Delivery::kDelivered);
  EXPECT_EQ(deliver(record(0, true)), Delivery::kDropped);
  EXPECT_EQ(arrivals().size(), 1u);
  EXPECT_FALSE(corrupted());
  EXPECT_EQ(deliver(record(0)), Delivery::kDropped);
  EXPECT_TRUE(corrupted()) << "no other proxy has sent it again";
}

TEST_F(PortTableTest, RecordsOfARefusedPacketMayArriveAgain) {
  EXPECT_EQ(deliver(record(0)), Delivery::kDelivered);
  table_.packet_turned_away();
  EXPECT_EQ(deliver(record(0)), Delivery::kDropped);
  EXPECT_FALSE(corrupted());
}

TEST_F(PortTableTest, ConsumedRecordIsADuplicate) {
  memory_.cell().consumed = 4;
  EXPECT_EQ(deliver(record(3, true)), Delivery::kDropped);
  EXPECT_EQ(deliver(record(4)), Delivery::kDelivered);
  EXPECT_FALSE(corrupted());
}

TEST_F(PortTableTest, RecordBeyondTheWindowCorruptsTheConnection) {
  EXPECT_EQ(deliver(record(kWindowGranules - 1)), Delivery::kDelivered);
  EXPECT_EQ(deliver(record(kWindowGranules)), Delivery::kDropped);
  EXPECT_TRUE(corrupted());
}

TEST_F(PortTableTest, SpaceIsFreeAgainWhenTheClientHasConsumedIt) {
  for (std::uint32_t position = 0; position < 3 * kWindowGranules; ++position) {
    ASSERT_EQ(deliver(record(position)), Delivery::kDelivered) << position;
    ASSERT_EQ(arrivals(), std::vector<std::uint32_t>{position});
    client_.release(client_.taken());
    memory_.cell().consumed = position + 1;
  }
  EXPECT_FALSE(corrupted());
}

TEST_F(PortTableTest, FullRingHasNoRoomAndAfterItsTimeoutViolatesTheProtocol) {
  for (std::uint32_t i = 0; i < kArrivals; ++i) ASSERT_EQ(deliver(record(i)), Delivery::kDelivered);
  EXPECT_EQ(deliver(record(kArrivals)), Delivery::kNoRoom);
  EXPECT_EQ(deliver(record(kArrivals), Instant() + 999_ms), Delivery::kNoRoom);
  EXPECT_EQ(deliver(record(kArrivals), Instant() + 1_s), Delivery::kProtocolViolation);
}

TEST_F(PortTableTest, EmptiedRingRestartsTheTimeout) {
  for (std::uint32_t i = 0; i < kArrivals; ++i) ASSERT_EQ(deliver(record(i)), Delivery::kDelivered);
  EXPECT_EQ(deliver(record(kArrivals)), Delivery::kNoRoom);
  EXPECT_EQ(arrivals().size(), kArrivals);
  client_.release(client_.taken());
  for (std::uint32_t i = 0; i < kArrivals; ++i)
    ASSERT_EQ(deliver(record(kArrivals + i), Instant() + 900_ms), Delivery::kDelivered);
  memory_.cell().consumed = kArrivals;
  EXPECT_EQ(deliver(record(2 * kArrivals), Instant() + 1500_ms), Delivery::kNoRoom);
}

TEST_F(PortTableTest, ClosedOrDetachingChannelGetsNothing) {
  channel_->closed = true;
  EXPECT_EQ(deliver(record(0)), Delivery::kDropped);
  channel_->closed = false;
  channel_->detaching = true;
  EXPECT_EQ(deliver(record(0)), Delivery::kDropped);
  EXPECT_EQ(counters_.no_port.get(), 2u);
}

TEST_F(PortTableTest, RewritingIsOverWhenTheRecordIsDelivered) {  // FO-9
  EXPECT_EQ(deliver(record(2, true)), Delivery::kDelivered);
  EXPECT_EQ(states_[0].writing.load(), 0u);
  EXPECT_EQ(counters_.redelivered.get(), 1u);
}

TEST_F(PortTableTest, CreditIsNotGrantedWhereAnotherProxyWrites) {  // FO-9
  EXPECT_TRUE(may_grant(states_, 2, PortId(5), Position(4)));
  states_[1].writing = hazard(PortId(5), Position(3));
  EXPECT_FALSE(may_grant(states_, 2, PortId(5), Position(4)));
  EXPECT_TRUE(may_grant(states_, 2, PortId(5), Position(3))) << "grants only what is before it";
  EXPECT_TRUE(may_grant(states_, 2, PortId(6), Position(4))) << "another port";
  states_[1].isolated = true;
  EXPECT_TRUE(may_grant(states_, 2, PortId(5), Position(4))) << "its writes are not seen";
}

TEST_F(PortTableTest, PortBelongsToTheEndpointOfItsChannel) {
  EXPECT_EQ(table_.find_own(*channel_, PortId(5)), table_.find(PortId(5)));
  const auto other_lane = memory_.channel(1);
  EXPECT_NE(table_.find_own(*other_lane, PortId(5)), nullptr) << "the endpoint's other lane";
  const auto other_client = memory_.channel(0, false, 2);
  EXPECT_EQ(table_.find_own(*other_client, PortId(5)), nullptr);
  EXPECT_EQ(table_.find_own(*channel_, PortId(6)), nullptr);
}

TEST_F(PortTableTest, RemovedPortIsNotFound) {
  table_.install(entry(PortId(6), PortId(9)));
  table_.remove(PortId(5));
  EXPECT_EQ(table_.find(PortId(5)), nullptr);
  EXPECT_NE(table_.find(PortId(6)), nullptr);
  table_.remove(PortId(6 + 64));
  EXPECT_NE(table_.find(PortId(6)), nullptr) << "another port in the same place";
  table_.clear();
  EXPECT_EQ(table_.find(PortId(6)), nullptr);
  EXPECT_EQ(table_.find(PortId()), nullptr);
}

}  // namespace
}  // namespace braid::proxy::test
