#include "proxy/client/lane.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <deque>
#include <vector>

#include "base/prng.h"
#include "tests/proxy/client_memory.h"

namespace braid::proxy {
namespace {

using test::LaidOutMemory;
using test::small_geometry;

struct SendLaneTest : testing::Test {
  // The offset of a piece of `bytes`, pushed and published; nothing when there is no room.
  std::optional<std::uint32_t> push(std::uint32_t bytes) {
    std::uint32_t offset = 0;
    if (!lane.find_room(bytes, &offset)) return std::nullopt;
    SendDescriptor d{};
    d.data_offset = offset;
    d.bytes = static_cast<std::uint16_t>(bytes);
    lane.push(d);
    lane.publish();
    return offset;
  }
  // The proxy takes `count` descriptors and gives them back.
  void proxy_takes(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_GT(proxy.readable(), 0u);
      (void)proxy.take();
    }
    proxy.release(proxy.taken());
  }

  LaidOutMemory memory{small_geometry()};
  SendLane lane{memory.begin(), memory.geometry(), 0, 0};
  SendConsumer proxy = memory.send_consumer();
};

TEST_F(SendLaneTest, PiecesLieBehindEachOtherInWholeGranules) {
  EXPECT_EQ(push(100), 0u);
  EXPECT_EQ(push(64), 128u);
  EXPECT_EQ(push(1), 192u);
  EXPECT_EQ(push(0), 256u);
  EXPECT_EQ(push(5), 256u);
  EXPECT_EQ(lane.bytes_in_use(), 320u);
}

TEST_F(SendLaneTest, DescriptorsAreVisibleOnlyAfterPublish) {
  std::uint32_t offset = 0;
  ASSERT_TRUE(lane.find_room(64, &offset));
  SendDescriptor d{};
  d.bytes = 64;
  lane.push(d);
  const auto unpublished = [this] {
    std::vector<unsigned> bytes;
    lane.for_each_unpublished([&](const SendDescriptor& one) { bytes.push_back(one.bytes); });
    return bytes;
  };
  EXPECT_EQ(unpublished(), std::vector<unsigned>{64});
  EXPECT_EQ(proxy.readable(), 0u);
  lane.publish();
  EXPECT_EQ(unpublished(), std::vector<unsigned>());
  EXPECT_EQ(proxy.readable(), 1u);
}

TEST_F(SendLaneTest, RefusesWhenNoDescriptorIsFree) {
  for (unsigned i = 0; i < 8; ++i) ASSERT_TRUE(push(0));
  EXPECT_FALSE(push(0));
  proxy_takes(1);
  EXPECT_TRUE(push(0));
  EXPECT_FALSE(push(0));
}

TEST_F(SendLaneTest, RefusesWhenTheDataAreaIsFull) {
  ASSERT_TRUE(push(40 << 10));
  EXPECT_FALSE(push(25 << 10));
  EXPECT_TRUE(push(24 << 10));
  EXPECT_FALSE(push(1));
  proxy_takes(1);
  EXPECT_EQ(push(40 << 10), 0u);
}

TEST_F(SendLaneTest, PieceThatWouldCrossTheEndBeginsAtZero) {
  ASSERT_EQ(push(30 << 10), 0u);
  ASSERT_EQ(push(30 << 10), 30u << 10);
  proxy_takes(1);
  EXPECT_EQ(push(8 << 10), 0u);  // 4 KiB before the end stay unused
  EXPECT_EQ(lane.bytes_in_use(), (30u + 4u + 8u) << 10);
  proxy_takes(2);  // the second piece, and with the third what was unused before it
  lane.reclaim();
  EXPECT_EQ(lane.bytes_in_use(), 0u);
}

TEST_F(SendLaneTest, EmptyLaneBeginsAtZeroAgain) {
  ASSERT_EQ(push(100), 0u);
  ASSERT_EQ(push(100), 128u);
  proxy_takes(2);
  lane.reclaim();
  EXPECT_EQ(push(100), 0u);
}

TEST_F(SendLaneTest, DescriptorWithoutDataTakesNone) {
  ASSERT_EQ(push(100), 0u);
  std::uint32_t offset = 0;
  ASSERT_TRUE(lane.find_room(0, &offset));
  lane.push_empty({});
  EXPECT_EQ(lane.bytes_in_use(), 128u);
  EXPECT_EQ(push(1), 128u);
}

// Pieces of random sizes are sent and given back: no byte belongs to two of them at once.
TEST_F(SendLaneTest, PiecesInFlightNeverOverlap) {
  struct Piece {
    std::uint32_t begin, end;
  };
  Prng prng(5);
  std::deque<Piece> in_flight;
  unsigned refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (prng.below(3) == 0 && !in_flight.empty()) {
      proxy_takes(1);
      in_flight.pop_front();
      continue;
    }
    const auto bytes = static_cast<std::uint32_t>(prng.below(prng.below(4) == 0 ? 40'000 : 4'000));
    const std::optional<std::uint32_t> offset = push(bytes);
    if (!offset) {
      ++refused;
      continue;
    }
    const Piece piece{*offset, *offset + bytes};
    ASSERT_LE(piece.end, memory.geometry().send_bytes) << i;
    for (const Piece& other : in_flight)
      ASSERT_TRUE(piece.end <= other.begin || other.end <= piece.begin || bytes == 0) << i;
    in_flight.push_back(piece);
  }
  EXPECT_GT(refused, 1000u);
}

// --- trains (CV-11)

ChannelGeometry geometry_with_trains(std::uint16_t messages = 4, std::uint16_t bytes = 512) {
  return small_geometry(1, {messages, bytes});
}

struct TrainTest : testing::Test {
  static constexpr std::uint32_t kPort = 5;

  // A message of so many bytes `fill` at the next position joins what was pushed last, if it may.
  void send(std::uint32_t bytes, std::uint32_t port = kPort, std::uint8_t fill = 1) {
    std::uint32_t offset = 0;
    ASSERT_TRUE(lane.find_room(bytes, &offset));
    const Position end = next + convergence::granules_of(bytes);
    if (lane.joinable(port, next, bytes)) {
      std::memset(lane.data(lane.join_offset()), fill, bytes);
      lane.join(bytes, end);
    } else {
      SendDescriptor d{};
      d.source_port = port;
      d.position = next.value();
      d.data_offset = offset;
      d.bytes = static_cast<std::uint16_t>(bytes);
      d.message_bytes = bytes;
      std::memset(lane.data(offset), fill, bytes);
      lane.push_joinable(d, end);
    }
    next = end;
  }
  struct Taken {
    SendDescriptor descriptor;
    std::vector<std::uint16_t> lengths;
  };
  // All descriptors that the proxy takes after publish().
  std::vector<Taken> taken() {
    lane.publish();
    std::vector<Taken> all;
    while (proxy.readable() > 0) {
      Taken t{proxy.take(), {}};
      if (t.descriptor.messages != 0) {
        EXPECT_GT(proxy.readable(), 0u);
        const auto lengths = std::bit_cast<stack::TrainLengths>(proxy.take());
        t.lengths.assign(lengths.begin(), lengths.begin() + t.descriptor.messages);
        EXPECT_TRUE(stack::is_train(lengths, t.descriptor.messages, t.descriptor.bytes));
      }
      all.push_back(t);
    }
    return all;
  }
  // The lengths of the messages of each descriptor.
  std::vector<std::vector<std::uint16_t>> lengths() {
    std::vector<std::vector<std::uint16_t>> all;
    for (const Taken& t : taken())
      all.push_back(t.lengths.empty()
                        ? std::vector<std::uint16_t>{static_cast<std::uint16_t>(t.descriptor.bytes)}
                        : t.lengths);
    return all;
  }
  using Lengths = std::vector<std::vector<std::uint16_t>>;

  LaidOutMemory memory{geometry_with_trains()};
  SendLane lane{memory.begin(), memory.geometry(), 0, 0};
  SendConsumer proxy = memory.send_consumer();
  Position next;
};

TEST_F(TrainTest, ConsecutiveMessagesShareADescriptor) {
  send(64);
  send(10);
  send(0);
  const std::vector<Taken> all = taken();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].descriptor.position, 0u);
  EXPECT_EQ(all[0].descriptor.messages, 3u);
  EXPECT_EQ(all[0].descriptor.bytes, 64u + 16u);
  EXPECT_EQ(all[0].descriptor.message_bytes, 64u + 16u);
  EXPECT_EQ(all[0].lengths, (std::vector<std::uint16_t>{64, 10, 0}));
  EXPECT_EQ(lane.bytes_in_use(), 128u);
}

TEST_F(TrainTest, IsOneOfTheDescriptorsThatAreNotPublished) {
  send(8);
  ASSERT_EQ(taken().size(), 1u);
  send(600);
  for (int i = 0; i < 3; ++i) send(8);
  send(8, kPort + 1);
  std::vector<unsigned> messages;
  lane.for_each_unpublished([&](const SendDescriptor& d) { messages.push_back(d.messages); });
  EXPECT_EQ(messages, (std::vector<unsigned>{0, 3, 0}));
  send(8, kPort + 1);  // it may still be joined
  EXPECT_EQ(lengths(), (Lengths{{600}, {8, 8, 8}, {8, 8}}));
}

TEST_F(TrainTest, BytesInUseCountMessagesThatHaveJoined) {
  send(64);
  send(64);
  send(10);
  EXPECT_EQ(lane.bytes_in_use(), 192u);
  lane.publish();
  EXPECT_EQ(lane.bytes_in_use(), 192u);
}

TEST_F(TrainTest, MessagesOfNoBytesJoin) {
  send(0);
  send(0);
  EXPECT_EQ(lengths(), (Lengths{{0, 0}}));
  EXPECT_EQ(lane.bytes_in_use(), 0u);
  send(64);
  send(0);
  send(0);
  EXPECT_EQ(lengths(), (Lengths{{64, 0, 0}}));
}

// The bytes behind a reservation that is never sent belong to the train's next message.
TEST_F(TrainTest, MessageThatJoinsBehindALookForRoomLiesBehindTheTrain) {
  send(64);
  send(64);
  std::uint32_t offset = 0;
  ASSERT_TRUE(lane.find_room(64, &offset));
  EXPECT_EQ(offset, 128u);
  send(64);
  EXPECT_EQ(lengths(), (Lengths{{64, 64, 64}}));
  ASSERT_TRUE(lane.find_room(64, &offset));
  EXPECT_EQ(offset, 192u);
}

TEST_F(TrainTest, BytesBetweenMessagesAreZero) {
  std::memset(lane.data(0), 0xee, 256);
  send(3);
  send(5);
  send(8);
  ASSERT_EQ(taken().size(), 1u);
  const std::byte* const data = lane.data(0);
  for (unsigned i = 0; i < 24; ++i)
    EXPECT_EQ(data[i], std::byte{i < 3 || (i >= 8 && i < 13) || i >= 16 ? std::uint8_t{1} : std::uint8_t{0}})
        << i;
}

TEST_F(TrainTest, HasNoMoreMessagesThanItMay) {
  for (int i = 0; i < 5; ++i) send(8);
  EXPECT_EQ(lengths(), (Lengths{{8, 8, 8, 8}, {8}}));
}

TEST_F(TrainTest, HasNoMoreBytesThanItMay) {
  send(256);
  send(200);
  send(57);  // 512 are left 56
  send(448);
  EXPECT_EQ(lengths(), (Lengths{{256, 200}, {57, 448}}));
  send(600);
  send(8);
  EXPECT_EQ(lengths(), (Lengths{{600}, {8}})) << "a message that is too long for a train";
}

TEST_F(TrainTest, EndsWhenItIsPublished) {
  send(8);
  send(8);
  EXPECT_EQ(lengths(), (Lengths{{8, 8}}));
  send(8);
  EXPECT_EQ(lengths(), (Lengths{{8}}));
}

TEST_F(TrainTest, HasOnePortAndConsecutivePositions) {
  send(8);
  send(8, kPort + 1);
  send(8, kPort + 1);
  next = next + 3;  // a piece went another way
  send(8, kPort + 1);
  EXPECT_EQ(lengths(), (Lengths{{8}, {8, 8}, {8}}));
}

TEST_F(TrainTest, NothingJoinsBehindADescriptorWithoutData) {
  send(8);
  std::uint32_t offset = 0;
  ASSERT_TRUE(lane.find_room(0, &offset));
  lane.push_empty({});
  send(8);
  EXPECT_EQ(lengths(), (Lengths{{8}, {0}, {8}}));
}

TEST_F(TrainTest, IsNeverCutByTheEndOfTheDataArea) {
  std::uint32_t offset = 0;
  const std::uint32_t most = memory.geometry().send_bytes;
  for (const std::uint32_t bytes : {most / 2, most / 2 - 64}) {
    ASSERT_TRUE(lane.find_room(bytes, &offset));
    SendDescriptor d{};
    d.data_offset = offset;
    d.bytes = static_cast<std::uint16_t>(bytes);
    lane.push(d);
  }
  ASSERT_EQ(taken().size(), 2u);
  proxy.release(proxy.taken() - 1);  // the second is in flight
  send(40);                          // the last granule
  send(30);
  const std::vector<Taken> all = taken();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].descriptor.data_offset, most - 64);
  EXPECT_EQ(all[1].descriptor.data_offset, 0u);
}

// A message of no bytes leaves the data area empty, and an empty one begins at zero again.
TEST_F(TrainTest, NothingJoinsBehindNoBytesWhereTheDataAreaBeganAnew) {
  send(64);
  (void)taken();
  send(0);
  proxy.release(proxy.taken());
  lane.reclaim();
  send(200);
  send(200, kPort + 1);
  const std::vector<Taken> all = taken();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].descriptor.data_offset, 0u);
  EXPECT_EQ(all[2].descriptor.data_offset, 256u);
}

TEST_F(TrainTest, MessagesThatJoinedBehindNoBytesKeepTheirPlaceWhenTheRestComesBack) {
  send(64);
  (void)taken();
  send(0);
  ASSERT_TRUE(lane.joinable(kPort, next, 64));
  next = next + 1;
  lane.join(64, next);
  proxy.release(proxy.taken());
  lane.reclaim();
  EXPECT_EQ(lane.bytes_in_use(), 64u);
  send(64);
  const std::vector<Taken> all = taken();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].descriptor.data_offset, 64u);
  EXPECT_EQ(all[0].lengths, (std::vector<std::uint16_t>{0, 64, 64}));
}

TEST_F(TrainTest, NeedsADescriptorForItsLengths) {
  for (int i = 0; i < 7; ++i) send(600);
  send(8);
  std::uint32_t offset = 0;
  EXPECT_FALSE(lane.find_room(8, &offset)) << "the ring is full";
  EXPECT_EQ(lengths().size(), 8u);
}

// Its two descriptors and its bytes come back together, and whatever is sent and given back, no byte belongs to two
// descriptors at once.
TEST_F(TrainTest, DataInFlightNeverOverlaps) {
  struct Span {
    std::uint32_t begin, end, entries;
  };
  Prng prng(7);
  std::deque<Span> in_flight;
  unsigned trains = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t messages = 1 + prng.below(6);
    for (std::uint64_t m = 0; m < messages; ++m) {
      const auto bytes = static_cast<std::uint32_t>(prng.below(prng.below(8) == 0 ? 16'000 : 200));
      std::uint32_t offset = 0;
      if (lane.find_room(bytes, &offset)) send(bytes);
    }
    for (const Taken& t : taken()) {
      const Span span{t.descriptor.data_offset, t.descriptor.data_offset + t.descriptor.bytes,
                      t.descriptor.messages == 0 ? 1u : 2u};
      trains += t.descriptor.messages != 0 ? 1 : 0;
      ASSERT_LE(span.end, memory.geometry().send_bytes) << i;
      for (const Span& other : in_flight)
        ASSERT_TRUE(span.end <= other.begin || other.end <= span.begin || span.end == span.begin ||
                    other.end == other.begin)
            << i;
      in_flight.push_back(span);
    }
    while (!in_flight.empty() && prng.below(3) != 0) {
      proxy.release(proxy.released() + in_flight.front().entries);
      in_flight.pop_front();
    }
  }
  EXPECT_GT(trains, 1000u);
}

TEST(SendLane, WithoutTrainsEveryMessageHasADescriptor) {
  LaidOutMemory memory{geometry_with_trains(1)};
  SendLane lane{memory.begin(), memory.geometry(), 0, 0};
  SendDescriptor d{};
  d.source_port = 5;
  d.bytes = 8;
  lane.push_joinable(d, Position(1));
  EXPECT_FALSE(lane.joinable(5, Position(1), 8));
}

struct ArrivalLaneTest : testing::Test {
  void arrive(std::uint32_t port) {
    ArrivalDescriptor d{};
    d.destination_port = port;
    ASSERT_GT(proxy.room(), 0u);
    proxy.push(d);
    proxy.publish();
  }

  LaidOutMemory memory{small_geometry()};
  ArrivalLane lane{memory.begin(), memory.geometry(), 0, 0};
  ArrivalProducer proxy = memory.arrival_producer();
  const Instant start = Instant() + 1_s;
};

TEST_F(ArrivalLaneTest, ArrivalsAreTakenInOrder) {
  EXPECT_FALSE(lane.has_arrival());
  arrive(1);
  arrive(2);
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_EQ(lane.take().destination_port, 1u);
  EXPECT_EQ(lane.take().destination_port, 2u);
  EXPECT_FALSE(lane.has_arrival());
}

TEST_F(ArrivalLaneTest, LooksNonEmptyUntilWhatWasTakenIsReleased) {
  EXPECT_FALSE(lane.looks_non_empty());
  arrive(1);
  EXPECT_TRUE(lane.looks_non_empty());
  ASSERT_TRUE(lane.has_arrival());
  (void)lane.take();
  EXPECT_TRUE(lane.looks_non_empty());
  lane.release();
  EXPECT_FALSE(lane.looks_non_empty());
}

TEST_F(ArrivalLaneTest, EarlyArrivalIsRepeatedBeforeLaterOnes) {
  arrive(1);
  arrive(2);
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_TRUE(lane.keep(lane.take(), start));
  lane.release();
  EXPECT_TRUE(lane.keeps_arrival());
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_EQ(lane.take().destination_port, 1u);
  EXPECT_FALSE(lane.keeps_arrival());
  EXPECT_EQ(lane.take().destination_port, 2u);
}

TEST_F(ArrivalLaneTest, EarlyArrivalIsGivenUpAfterItsTimeout) {
  const Instant end = start + ArrivalLane::kEarlyArrivalTimeout;
  arrive(1);
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_TRUE(lane.keep(lane.take(), start));
  EXPECT_TRUE(lane.keep(lane.take(), end - 1_ns));
  EXPECT_FALSE(lane.keep(lane.take(), end));
  EXPECT_FALSE(lane.has_arrival());
}

TEST_F(ArrivalLaneTest, EveryEarlyArrivalHasTheWholeTimeout) {
  const Instant end = start + ArrivalLane::kEarlyArrivalTimeout;
  arrive(1);
  arrive(2);
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_TRUE(lane.keep(lane.take(), start));
  (void)lane.take();
  lane.handled();  // its connection was announced
  EXPECT_TRUE(lane.keep(lane.take(), end));
  EXPECT_TRUE(lane.keep(lane.take(), end + ArrivalLane::kEarlyArrivalTimeout - 1_ns));
}

struct ArrivingTrainTest : ArrivalLaneTest {
  void arrive_train(const stack::TrainLengths& lengths, std::uint8_t messages, std::uint32_t position,
                    std::uint16_t skip = 0) {
    ArrivalDescriptor d{};
    d.destination_port = 9;
    d.position = position;
    d.skip = skip;
    d.messages = messages;
    ASSERT_GT(proxy.room(), 1u);
    proxy.push(d);
    proxy.push(std::bit_cast<ArrivalDescriptor>(lengths));
    proxy.publish();
  }
};

TEST_F(ArrivingTrainTest, ItsMessagesAreArrivalsOfTheirOwn) {
  arrive_train({100, 0, 64}, 3, 40, 2);
  arrive(1);
  struct {
    std::uint32_t bytes, position, skip;
  } const wanted[] = {{100, 40, 2}, {0, 42, 0}, {64, 43, 0}};
  for (const auto& w : wanted) {
    ASSERT_TRUE(lane.has_arrival());
    const ArrivalDescriptor d = lane.take();
    EXPECT_EQ(d.destination_port, 9u);
    EXPECT_EQ(d.bytes, w.bytes);
    EXPECT_EQ(d.message_bytes, w.bytes);
    EXPECT_EQ(d.position, w.position);
    EXPECT_EQ(d.message, w.position);
    EXPECT_EQ(d.skip, w.skip);
    EXPECT_EQ(d.messages, 0u);
  }
  EXPECT_EQ(lane.take().destination_port, 1u);
  EXPECT_FALSE(lane.has_arrival());
}

TEST_F(ArrivingTrainTest, RestOfATrainIsKeptWhenTheRingIsReleased) {
  arrive_train({8, 8}, 2, 0);
  ASSERT_TRUE(lane.has_arrival());
  (void)lane.take();
  lane.release();
  EXPECT_FALSE(lane.looks_non_empty());
  EXPECT_TRUE(lane.keeps_arrival());
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_EQ(lane.take().position, 1u);
  EXPECT_FALSE(lane.keeps_arrival());
}

TEST_F(ArrivingTrainTest, EarlyMessageOfATrainIsRepeatedBeforeTheRest) {
  arrive_train({8, 8}, 2, 0);
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_TRUE(lane.keep(lane.take(), start));
  lane.release();
  ASSERT_TRUE(lane.has_arrival());
  EXPECT_EQ(lane.take().position, 0u);
  EXPECT_EQ(lane.take().position, 1u);
  EXPECT_FALSE(lane.has_arrival());
}

TEST(EndpointLanes, LoadIsWhatWaitsAtTheServingProxyAndInTheLane) {
  LaidOutMemory memory{small_geometry(2)};
  EndpointLanes lanes(memory.begin(), memory.geometry(), 0);
  NodeCounters counters;
  counters.server[0] = 1;  // proxy 1 serves lane 0
  counters.server[1] = 1;
  counters.proxy[0].queued_bytes.add(7);
  counters.proxy[1].queued_bytes.add(1000);
  EXPECT_FALSE(lanes.has_counters());
  lanes.set_counters(counters);
  EXPECT_TRUE(lanes.has_counters());
  std::uint32_t offset = 0;
  ASSERT_TRUE(lanes[0].send.find_room(64, &offset));
  SendDescriptor d{};
  d.bytes = 64;
  lanes[0].send.push(d);
  EXPECT_EQ(lanes.load(0), 1064u);
  EXPECT_EQ(lanes.load(1), 1000u);
}

TEST(EndpointLanes, AnyLaneWithAnArrivalCounts) {
  LaidOutMemory memory{small_geometry(3)};
  EndpointLanes lanes(memory.begin(), memory.geometry(), 0);
  EXPECT_FALSE(lanes.have_arrivals());
  ArrivalProducer proxy = memory.arrival_producer(2);
  (void)proxy.room();
  proxy.push({});
  proxy.publish();
  EXPECT_TRUE(lanes.have_arrivals());
  EXPECT_FALSE(lanes.keep_arrivals());
  ASSERT_TRUE(lanes[2].arrivals.has_arrival());
  ASSERT_TRUE(lanes[2].arrivals.keep(lanes[2].arrivals.take(), Instant() + 1_s));
  EXPECT_TRUE(lanes.keep_arrivals());
}

}  // namespace
}  // namespace braid::proxy
