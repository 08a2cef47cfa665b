#include "proxy/client/lane.h"

#include <gtest/gtest.h>

#include <deque>

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
    d.bytes = bytes;
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
  EXPECT_EQ(lane.unpublished(), 1u);
  EXPECT_EQ(proxy.readable(), 0u);
  lane.publish();
  EXPECT_EQ(lane.unpublished(), 0u);
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
