// Barriers: scenarios. Three clusters of two nodes; barrier 0 has its root at cluster 0, barrier 1 at
// cluster 1.
#include <gtest/gtest.h>

#include <array>
#include <bit>

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

  EngineMachine m{config()};
};

TEST_F(BarriersTest, ClusterArrivesWithItsLastNode) {  // BR-1
  comes(1, 1);
  EXPECT_TRUE(m.wire.empty());
  comes(1, 0);
  EXPECT_EQ(m.count(Kind::kBarrierArrive), 1u);
}

TEST_F(BarriersTest, NoNodeDepartsBeforeAllHaveArrived) {  // BR-3
  all_of(0);
  all_of(1);
  m.deliver_all();
  EXPECT_FALSE(passed(0) || passed(1));
  all_of(2);
  m.deliver(Kind::kBarrierArrive, 0);
  EXPECT_TRUE(passed(0));
  m.deliver(Kind::kBarrierDepart, 2);
  EXPECT_TRUE(passed(2));
  EXPECT_FALSE(passed(1));
  m.deliver_all();
  EXPECT_TRUE(passed(1));
  EXPECT_TRUE(m.quiet());
}

TEST_F(BarriersTest, ClusterArrivesWhenItsWritesAreVisible) {  // BR-2
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
  m.deliver_all();
  for (std::uint16_t c = 0; c < 3; ++c) EXPECT_EQ(m.read(c, 0), 5);
}

TEST_F(BarriersTest, BarrierIsReusedWhileOthersStillDepart) {  // BR-4
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
  m.deliver_all();
  EXPECT_TRUE(passed(0) && passed(1) && passed(2));
}

TEST_F(BarriersTest, MessagesOfAnotherGenerationAreRefused) {  // BR-4
  EngineMachine forged(config());
  const auto send = [&](Kind kind, std::uint16_t from, std::uint16_t to, std::uint32_t generation) {
    std::vector<std::byte> bytes(kHeaderBytes + kBarrierValueBytes);
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
    m.deliver_all();
    for (std::uint16_t c = 0; c < 3; ++c) ASSERT_TRUE(passed(c));
  }
  EXPECT_EQ(m.engine(1).node_counts(1).barriers, 5u);
}

// Seven clusters of one node in a binary tree: 0 over 1 and 2, 1 over 3 and 4, 2 over 5 and 6.
struct BarrierTree : testing::Test {
  static EngineConfig config() {
    return {.clusters = 7,
            .compute_nodes = 1,
            .pages = 1,
            .locks = 1,
            .barriers = 9,
            .twins = 2,
            .barrier_fan_out = 2};
  }
  ~BarrierTree() override { EXPECT_EQ(m.bad_messages(), 0u); }
  bool comes(std::uint16_t cluster, std::uint32_t barrier, Reduction reduction = Reduction::kNone,
             std::uint64_t value = 0) {
    const bool done = m.engine(cluster).barrier(0, BarrierId(barrier), reduction, value);
    m.transmit_all();
    m.check();
    return done;
  }
  std::vector<std::pair<unsigned, unsigned>> hops() const {
    std::vector<std::pair<unsigned, unsigned>> all;
    for (const InFlight& message : m.wire) all.emplace_back(message.from, message.to);
    return all;
  }
  using Hops = std::vector<std::pair<unsigned, unsigned>>;

  EngineMachine m{config()};
};

TEST_F(BarrierTree, ArrivalsGoUpTheTreeAndDeparturesDown) {  // BR-3
  for (const std::uint16_t leaf : std::to_array<std::uint16_t>({3, 4, 5, 6})) EXPECT_FALSE(comes(leaf, 0));
  EXPECT_EQ(hops(), (Hops{{3, 1}, {4, 1}, {5, 2}, {6, 2}}));
  m.deliver_all();
  EXPECT_FALSE(comes(1, 0));
  EXPECT_EQ(hops(), (Hops{{1, 0}}));
  EXPECT_FALSE(comes(0, 0));
  m.deliver_all();
  EXPECT_FALSE(comes(2, 0));
  EXPECT_EQ(hops(), (Hops{{2, 0}}));
  m.deliver(Kind::kBarrierArrive, 0);
  EXPECT_TRUE(m.engine(0).done(0));
  EXPECT_EQ(hops(), (Hops{{0, 1}, {0, 2}}));
  m.deliver(Kind::kBarrierDepart, 2);
  EXPECT_TRUE(m.engine(2).done(0));
  EXPECT_EQ(hops(), (Hops{{0, 1}, {2, 5}, {2, 6}}));
  m.deliver_all();
  for (std::uint16_t c = 0; c < 7; ++c) EXPECT_TRUE(m.engine(c).done(0));
  EXPECT_TRUE(m.quiet());
}

TEST_F(BarrierTree, EveryBarrierHasARootOfItsOwn) {  // BR-3
  for (const std::uint16_t c : std::to_array<std::uint16_t>({0, 1, 2, 4, 5, 6})) EXPECT_FALSE(comes(c, 3));
  m.deliver_all();
  EXPECT_TRUE(comes(3, 3)) << "the root completes it without a message to itself";
  m.deliver_all();
  EXPECT_TRUE(m.quiet());
}

TEST_F(BarrierTree, ValuesAreCombinedInTheOrderOfTheTree) {  // BR-5
  // The sums of these depend on the order of addition.
  const std::array<double, 7> values = {1e16, 1, -1e16, 3, 1e-3, 7, 1e8};
  const auto sum = [&](const std::vector<std::uint16_t>& order) {
    for (const std::uint16_t c : order)
      (void)comes(c, 0, Reduction::kSumDouble, std::bit_cast<std::uint64_t>(values[c]));
    while (!m.wire.empty()) {
      m.deliver(m.wire.size() - 1);
      m.transmit_all();
    }
    for (std::uint16_t c = 0; c < 7; ++c) {
      EXPECT_TRUE(m.engine(c).done(0));
      EXPECT_EQ(m.engine(c).result(0), m.engine(0).result(0));
      EXPECT_EQ(m.engine(c).reduction(0), Reduction::kSumDouble);
    }
    return std::bit_cast<double>(m.engine(0).result(0));
  };
  const double expected =
      values[0] + (values[1] + values[3] + values[4]) + (values[2] + values[5] + values[6]);
  EXPECT_EQ(sum({0, 1, 2, 3, 4, 5, 6}), expected);
  EXPECT_EQ(sum({6, 5, 4, 3, 2, 1, 0}), expected);
  EXPECT_EQ(sum({4, 0, 6, 2, 3, 1, 5}), expected);
}

TEST_F(BarrierTree, EveryReductionComputesItsResult) {  // BR-5
  const auto reduced = [&](Reduction reduction, auto value_of) {
    for (std::uint16_t c = 0; c < 7; ++c)
      (void)comes(c, 5, reduction, std::bit_cast<std::uint64_t>(value_of(c)));
    m.deliver_all();
    return m.engine(3).result(0);
  };
  const auto number = [](std::uint16_t c) { return (c - std::int64_t{3}) * (c % 2 == 0 ? 1 : -10); };
  //   c:      0   1   2  3  4    5   6
  //   value: -3  20  -1  0  1  -20   3
  const auto real = [&](std::uint16_t c) { return static_cast<double>(number(c)) / 2; };
  const auto count = [](std::uint16_t c) { return c == 6 ? ~std::uint64_t{0} : std::uint64_t{c} + 2; };
  const auto bits = [](auto value) { return std::bit_cast<std::uint64_t>(value); };
  EXPECT_EQ(reduced(Reduction::kSumInt64, number), bits(std::int64_t{0}));
  EXPECT_EQ(reduced(Reduction::kMinInt64, number), bits(std::int64_t{-20}));
  EXPECT_EQ(reduced(Reduction::kMaxInt64, number), bits(std::int64_t{20}));
  EXPECT_EQ(reduced(Reduction::kSumDouble, real), bits(0.0));
  EXPECT_EQ(reduced(Reduction::kMinDouble, real), bits(-10.0));
  EXPECT_EQ(reduced(Reduction::kMaxDouble, real), bits(10.0));
  EXPECT_EQ(reduced(Reduction::kSumUint64, count), 2u + 3 + 4 + 5 + 6 + 7 - 1);
  EXPECT_EQ(reduced(Reduction::kMinUint64, count), 2u);
  EXPECT_EQ(reduced(Reduction::kMaxUint64, count), ~std::uint64_t{0});
}

TEST_F(BarrierTree, DifferentReductionsAreReportedToAllNodes) {  // BR-6
  for (std::uint16_t c = 0; c < 7; ++c)
    (void)comes(c, 0, c == 5 ? Reduction::kMinInt64 : Reduction::kSumInt64, 1);
  m.deliver_all();
  for (std::uint16_t c = 0; c < 7; ++c) {
    EXPECT_TRUE(m.engine(c).done(0));
    EXPECT_EQ(m.engine(c).reduction(0), Reduction::kDisagreement);
  }
  // The next barrier is independent, also while departures of this one wait to be sent.
  for (std::uint16_t c = 0; c < 7; ++c) (void)comes(c, 0, Reduction::kMaxInt64, c);
  m.deliver_all();
  EXPECT_EQ(m.engine(6).result(0), 6u);
  EXPECT_EQ(m.engine(6).reduction(0), Reduction::kMaxInt64);
}

TEST_F(BarrierTree, QueuedDepartureKeepsItsReduction) {  // BR-6
  for (std::uint16_t c = 1; c < 7; ++c) (void)comes(c, 0, Reduction::kSumInt64, c);
  for (const std::uint16_t to : std::to_array<std::uint16_t>({1, 1, 2, 2, 0, 0}))
    m.deliver(Kind::kBarrierArrive, to);
  EXPECT_TRUE(m.engine(0).barrier(0, BarrierId(0), Reduction::kSumInt64, 0));
  EXPECT_FALSE(m.engine(0).barrier(0, BarrierId(0), Reduction::kMinDouble, 99));  // before anything has left
  m.deliver_all();
  EXPECT_EQ(m.engine(5).result(0), 21u);
  EXPECT_EQ(m.engine(5).reduction(0), Reduction::kSumInt64);
}

TEST(OneCluster, NeedsNoNetwork) {  // BR-1, LK-1, PG-13
  const EngineConfig config{
      .clusters = 1, .compute_nodes = 2, .pages = 4, .locks = 2, .barriers = 1, .twins = 1};
  EngineMachine m(config);
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
  EXPECT_TRUE(m.engine(0).output_clusters().empty());
  EXPECT_TRUE(m.quiet());
}

}  // namespace
}  // namespace braid::dsm
