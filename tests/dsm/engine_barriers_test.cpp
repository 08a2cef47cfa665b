// Barriers, told as stories. Three clusters of two nodes; barrier 0 has its root at cluster 0, barrier 1 at
// cluster 1.
#include <gtest/gtest.h>

#include "engine_machine.h"

namespace braid::dsm {
namespace {

constexpr BarrierId kBarrier{0};

struct BarriersTest : testing::Test {
  static EngineConfig config() {
    return {.clusters = 3,
            .compute_nodes = 2,
            .pages = 3,
            .locks = 1,
            .barriers = 2,
            .flush_window = 4,
            .twins = 8};
  }
  ~BarriersTest() override { EXPECT_EQ(m.bad_messages(), 0u); }

  void comes(std::uint16_t cluster, std::uint16_t node, BarrierId barrier = kBarrier) {
    EXPECT_FALSE(m.engine(cluster).barrier(node, barrier));
    m.transmit_all();
    m.check();
  }
  void all_of(std::uint16_t cluster, BarrierId barrier = kBarrier) {
    comes(cluster, 0, barrier);
    comes(cluster, 1, barrier);
  }
  bool passed(std::uint16_t cluster) { return m.engine(cluster).done(0) && m.engine(cluster).done(1); }

  Machine m{config()};
};

TEST_F(BarriersTest, AClusterArrivesWhenItsLastNodeHasCome) {  // BR-1
  comes(1, 1);
  EXPECT_TRUE(m.wire.empty());
  comes(1, 0);
  EXPECT_EQ(m.count(Kind::kBarrierArrive), 1u);
}

TEST_F(BarriersTest, NobodyDepartsBeforeAllHaveArrived) {  // BR-3
  all_of(0);
  all_of(1);
  m.settle();
  EXPECT_FALSE(passed(0) || passed(1));
  all_of(2);
  m.deliver(Kind::kBarrierArrive, 0);
  EXPECT_TRUE(passed(0));
  m.deliver(Kind::kBarrierDepart, 2);
  EXPECT_TRUE(passed(2));
  EXPECT_FALSE(passed(1));
  m.settle();
  EXPECT_TRUE(passed(1));
  EXPECT_TRUE(m.quiet());
}

TEST_F(BarriersTest, AClusterArrivesWhenItsWritesAreVisible) {  // BR-2
  m.read(2, 0);
  m.write(1, 0, 5);
  all_of(1);
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kInvalidate, 2);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kBarrierArrive), 0u);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.count(Kind::kBarrierArrive), 1u);
  all_of(0);
  all_of(2);
  m.settle();
  for (std::uint16_t c = 0; c < 3; ++c) EXPECT_EQ(m.read(c, 0), 5);
}

TEST_F(BarriersTest, ItIsUsedAgainWhileOthersStillLeaveIt) {  // BR-4
  for (std::uint16_t c = 0; c < 3; ++c) all_of(c);
  m.deliver(Kind::kBarrierArrive, 0);
  m.deliver(Kind::kBarrierArrive, 0);
  ASSERT_TRUE(passed(0));
  m.deliver(Kind::kBarrierDepart, 2);
  all_of(2);  // the next generation
  all_of(0);
  m.deliver(Kind::kBarrierArrive, 0);
  EXPECT_FALSE(passed(0) || passed(1) || passed(2));
  m.deliver(Kind::kBarrierDepart, 1);  // of the first
  EXPECT_TRUE(passed(1));
  EXPECT_FALSE(passed(0) || passed(2));
  all_of(1);
  m.settle();
  EXPECT_TRUE(passed(0) && passed(1) && passed(2));
}

TEST_F(BarriersTest, AnArrivalOrADepartureOfAnotherGenerationIsRefused) {  // BR-4
  Machine forged(config());
  const auto send = [&](Kind kind, std::uint16_t from, std::uint16_t to, std::uint32_t generation) {
    std::vector<std::byte> bytes(kHeaderBytes);
    write_header(bytes, {.kind = kind, .id = 0, .number = generation});
    forged.engine(to).on_message(ClusterId(from), bytes);
    return forged.engine(to).counts().bad_messages;
  };
  EXPECT_EQ(send(Kind::kBarrierArrive, 1, 0, 1), 1u);
  EXPECT_EQ(send(Kind::kBarrierArrive, 1, 0, 0), 1u);  // taken
  EXPECT_EQ(send(Kind::kBarrierArrive, 1, 0, 0), 2u);  // twice
  for (const std::uint16_t node : {std::uint16_t{0}, std::uint16_t{1}})
    EXPECT_FALSE(forged.engine(2).barrier(node, kBarrier));
  EXPECT_EQ(send(Kind::kBarrierDepart, 0, 2, 0), 1u);  // its arrival has not left
  forged.transmit_all();
  EXPECT_EQ(send(Kind::kBarrierDepart, 0, 2, 1), 2u);
  EXPECT_FALSE(forged.engine(2).done(0));
  EXPECT_EQ(send(Kind::kBarrierDepart, 0, 2, 0), 2u);
  EXPECT_TRUE(forged.engine(2).done(0));
}

TEST_F(BarriersTest, SeveralBarriersHaveTheirOwnGenerations) {  // BR-4
  for (int round = 0; round < 5; ++round) {
    const BarrierId barrier(round % 3 == 0 ? 1u : 0u);
    for (std::uint16_t c = 0; c < 3; ++c) all_of(c, barrier);
    m.settle();
    for (std::uint16_t c = 0; c < 3; ++c) ASSERT_TRUE(passed(c));
  }
  EXPECT_EQ(m.engine(1).node_counts(1).barriers, 5u);
}

TEST(OneCluster, NeedsNoNetwork) {  // BR-1, LK-1, PG-13
  const EngineConfig config{
      .clusters = 1, .compute_nodes = 2, .pages = 4, .locks = 2, .barriers = 1, .twins = 1};
  Machine m(config);
  m.write(0, 0, 1, 0);
  EXPECT_TRUE(m.engine(0).lock(0, LockId(1)));
  EXPECT_FALSE(m.engine(0).lock(1, LockId(1)));
  m.unlock(0, 1, 0);
  EXPECT_TRUE(m.engine(0).done(1));
  m.unlock(0, 1, 1);
  EXPECT_FALSE(m.engine(0).barrier(0, kBarrier));
  EXPECT_TRUE(m.engine(0).barrier(1, kBarrier));
  EXPECT_TRUE(m.engine(0).done(0));
  EXPECT_EQ(m.peek(0, 0), 1);
  EXPECT_EQ(m.engine(0).output_clusters(), 0u);
  EXPECT_TRUE(m.quiet());
}

}  // namespace
}  // namespace braid::dsm
