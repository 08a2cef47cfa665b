// Locks and variables at addresses, gatherings, and tries: scenarios. Three clusters of two nodes, four pages of addresses:
// cluster 0 manages the objects of pages 0 and 3.
#include <gtest/gtest.h>

#include <map>

#include "base/prng.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/sparse_table.h"
#include "dsm/engine/state_sink.h"
#include "engine_machine.h"

namespace braid::dsm {
namespace {

TEST(SparseTable, BehavesLikeAMap) {
  Prng random(17);
  SparseTable<int> table;
  std::map<std::uint32_t, int> expected;
  // Neighbours and multiples of the number of slots, so that searches are long.
  const auto draw = [&] {
    return static_cast<std::uint32_t>(random.below(64) * (random.chance(0.5) ? 1 : 4096));
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::uint32_t number = draw();
    if (random.chance(0.5) && !expected.contains(number)) {
      EXPECT_EQ(table.add(number, i), i);
      expected[number] = i;
    } else if (expected.contains(number)) {
      table.remove(number);
      expected.erase(number);
    }
    const std::uint32_t other = draw();
    const int* const found = table.find(other);
    ASSERT_EQ(found != nullptr, expected.contains(other)) << i;
    ASSERT_EQ(found != nullptr ? *found : 0, expected.contains(other) ? expected[other] : 0);
    ASSERT_EQ(table.size(), expected.size());
  }
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, value] : expected) numbers.push_back(number);
  EXPECT_EQ(table.numbers(), numbers);
}

TEST(SparseTable, HoldsAMillion) {
  SparseTable<std::uint32_t> table;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) table.add(i * 16, i);
  for (std::uint32_t i = 0; i < 1'000'000; ++i) ASSERT_EQ(*table.find(i * 16), i);
  EXPECT_EQ(table.find(8), nullptr);
}

constexpr std::uint32_t kLocks = 2;

struct ObjectsTest : testing::Test {
  static EngineConfig config() {
    EngineConfig c{.clusters = 3, .compute_nodes = 2, .pages = 4, .locks = kLocks, .barriers = 1, .twins = 8};
    c.lease_uses = 0;
    c.pack = false;
    c.conditions = 2;
    c.semaphores = 2;
    c.addresses = 4 * addresses_per_page(PageLength());
    c.heap_address = 0x7000;
    return c;
  }
  ~ObjectsTest() override { EXPECT_EQ(m.bad_messages(), 0u); }

  static std::uint32_t at(std::uint32_t numbered, std::uint32_t page, std::uint32_t place = 0) {
    return numbered + page * addresses_per_page(PageLength()) + place;
  }
  static LockId lock_at(std::uint32_t page, std::uint32_t place = 0) {
    return LockId(at(kLocks, page, place));
  }

  // 1: the node has the lock; 0: not; -1: an answer is on its way.
  int tries(std::uint16_t cluster, LockId lock, std::uint16_t node = 0) {
    const bool complete = m.engine(cluster).try_lock(node, lock);
    m.transmit_all();
    m.check();
    return complete ? static_cast<int>(m.engine(cluster).result(node)) : -1;
  }
  int answer(std::uint16_t cluster, std::uint16_t node = 0) {
    return m.engine(cluster).done(node) ? static_cast<int>(m.engine(cluster).result(node)) : -1;
  }
  void locks(std::uint16_t cluster, LockId lock, std::uint16_t node = 0) {
    if (!m.engine(cluster).lock(node, lock)) m.deliver_all();
    EXPECT_TRUE(m.engine(cluster).holds(node, lock));
  }
  void unlocks(std::uint16_t cluster, LockId lock, std::uint16_t node = 0) {
    m.engine(cluster).unlock(node, lock);
    m.deliver_all();
    m.check();
  }
  bool gathers(std::uint16_t cluster, std::uint16_t node, std::uint32_t place, std::uint64_t count) {
    const bool complete =
        m.engine(cluster).sync(node, {.op = SyncOp::kGather, .id = place, .first = count, .releases = true});
    m.deliver_all();
    m.check();
    return complete;
  }
  std::uint64_t result(std::uint16_t cluster, SyncOp op, std::uint32_t id, std::uint64_t first = 0) {
    (void)m.engine(cluster).sync(0, {.op = op, .id = id, .first = first});
    m.deliver_all();
    EXPECT_TRUE(m.engine(cluster).done(0));
    return m.engine(cluster).result(0);
  }

  EngineMachine m{config()};
};

TEST_F(ObjectsTest, LockAtAnAddressIsManagedByThePagesCluster) {  // LK-11
  EXPECT_TRUE(m.engine(1).lock(0, lock_at(1)));
  EXPECT_TRUE(m.engine(1).lock(1, lock_at(1, 1023)));
  EXPECT_TRUE(m.engine(0).lock(0, lock_at(3)));
  EXPECT_TRUE(m.wire.empty());
  EXPECT_FALSE(m.engine(0).lock(1, lock_at(1, 7)));
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kLockGrant, 0);
  EXPECT_TRUE(m.engine(0).holds(1, lock_at(1, 7)));
}

TEST_F(ObjectsTest, LockThatOneClusterUsesCostsTwoMessagesOnce) {  // LK-2, LK-11
  EXPECT_FALSE(m.engine(2).lock(0, lock_at(0, 5)));
  m.transmit_all();
  EXPECT_EQ(m.wire.size(), 1u);
  m.deliver(Kind::kLockRequest, 0);
  EXPECT_EQ(m.wire.size(), 1u);
  m.deliver(Kind::kLockGrant, 2);
  m.engine(2).unlock(0, lock_at(0, 5));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(m.engine(2).lock(0, lock_at(0, 5)));
    m.engine(2).unlock(0, lock_at(0, 5));
  }
  m.transmit_all();
  EXPECT_TRUE(m.wire.empty());
}

TEST_F(ObjectsTest, LocksOfNeighbouringAddressesAreIndependentOfEachOther) {  // LK-11
  locks(0, lock_at(2, 0));
  locks(1, lock_at(2, 1));
  locks(2, lock_at(2, 2));
  locks(0, lock_at(2, 3));  // one node has two
  EXPECT_EQ(m.engine(0).locks_of(0), "the lock at 0x9000, the lock at 0x900c");
  unlocks(0, lock_at(2, 0));
  EXPECT_FALSE(m.engine(0).holds(0, lock_at(2, 0)));
  EXPECT_TRUE(m.engine(0).holds(0, lock_at(2, 3)));
}

TEST_F(ObjectsTest, WaitingNodeIsToldWhichAddress) {
  locks(0, lock_at(0, 2));
  EXPECT_FALSE(m.engine(0).lock(1, lock_at(0, 2)));
  EXPECT_EQ(m.engine(0).explain_wait(1), "waits for the lock at 0x7008, which compute node 0 has");
  (void)m.engine(1).sync(0, {.op = SyncOp::kGather, .id = at(0, 1, 1), .first = 2});
  EXPECT_EQ(m.engine(1).explain_wait(0),
            "waits for others to come to the barrier at 0x8004, which is at cluster 1");
}

TEST_F(ObjectsTest, TextsKnowObjectsThatAreApart) {
  m.engine(0).place_objects(addresses_per_page(PageLength()), 0x400000);
  locks(0, lock_at(0, 2));
  locks(0, lock_at(1, 3));
  EXPECT_EQ(m.engine(0).locks_of(0), "the lock at 0x7008, the lock at 0x40000c");
}

TEST_F(ObjectsTest, NothingIsKeptOfAnObjectInItsInitialState) {  // LK-11, SY-8
  struct Counter final : StateSink {
    std::size_t values_seen = 0;
    void value(std::uint64_t) override { ++values_seen; }
    void version(PageId, std::uint32_t) override {}
    void place(ClusterId, ClusterId, std::uint32_t) override {}
    void bytes(ByteView) override {}
  };
  const auto state = [&](std::uint16_t cluster) {
    Counter counter;
    m.engine(cluster).describe(counter);
    return counter.values_seen;
  };
  const std::size_t before0 = state(0), before1 = state(1), before2 = state(2);
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(result(1, SyncOp::kSemaphorePost, at(2, 0, i), 2), 0u);
    EXPECT_EQ(result(2, SyncOp::kSemaphoreTry, at(2, 0, i)), 2u);
    EXPECT_EQ(result(2, SyncOp::kSemaphoreSet, at(2, 0, i)), 1u);
    EXPECT_EQ(result(0, SyncOp::kSemaphoreTry, at(2, 0, i)), 0u);
    (void)result(2, SyncOp::kConditionBroadcast, at(2, 0, i));
    EXPECT_EQ(tries(1, lock_at(1, i)), 1);
  }
  EXPECT_EQ(state(0), before0);
  // Locks that were used at their managers.
  EXPECT_GT(state(1), before1);
  EXPECT_EQ(state(2), before2);
}

TEST_F(ObjectsTest, ConditionAndLockAtAddresses) {  // SY-5, SY-6
  locks(1, lock_at(0));
  (void)m.engine(1).sync(0, {.op = SyncOp::kConditionWait, .id = at(2, 2), .lock = lock_at(0)});
  m.deliver_all();
  EXPECT_FALSE(m.engine(1).holds(0, lock_at(0)));
  locks(2, lock_at(0));
  (void)result(2, SyncOp::kConditionSignal, at(2, 2));
  EXPECT_EQ(answer(1), -1);
  unlocks(2, lock_at(0));
  EXPECT_TRUE(m.engine(1).holds(0, lock_at(0)));
}

// --- Gatherings

TEST_F(ObjectsTest, GatheringLetsSomeNodesGoOnWhenAllOfThemHaveCome) {  // SY-7
  EXPECT_FALSE(gathers(0, 0, 5, 3));
  EXPECT_FALSE(gathers(2, 1, 5, 3));
  EXPECT_FALSE(m.engine(0).done(0) || m.engine(2).done(1));
  EXPECT_FALSE(gathers(1, 0, 5, 3));
  EXPECT_TRUE(m.engine(0).done(0) && m.engine(1).done(0) && m.engine(2).done(1));
  // It begins again, for others and for another number; one node alone does not wait.
  EXPECT_FALSE(gathers(1, 1, 5, 2));
  EXPECT_FALSE(m.engine(1).done(1));
  (void)gathers(2, 0, 5, 2);
  EXPECT_TRUE(m.engine(1).done(1) && m.engine(2).done(0));
  (void)gathers(0, 1, 6, 1);
  EXPECT_TRUE(m.engine(0).done(1));
  EXPECT_TRUE(m.quiet());
}

TEST_F(ObjectsTest, GatheringMakesWritesVisible) {  // SY-2, SY-7
  EXPECT_EQ(m.read(2, 0), 0);
  m.write(1, 0, 9);
  (void)gathers(2, 0, 1, 2);
  (void)gathers(1, 0, 1, 2);
  EXPECT_EQ(m.read(2, 0), 9);
}

TEST_F(ObjectsTest, GatheringRefusesAnotherNumber) {  // SY-7
  EXPECT_FALSE(gathers(0, 0, 5, 3));
  (void)gathers(1, 0, 5, 2);
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_EQ(m.engine(1).result(0), 1u);
  EXPECT_FALSE(m.engine(0).done(0));
}

// --- Tries

TEST_F(ObjectsTest, TryTakesAFreeLock) {  // LK-10
  EXPECT_EQ(tries(0, LockId(0)), 1);
  EXPECT_EQ(tries(0, LockId(0), 1), 0);
  EXPECT_EQ(tries(0, LockId(0), 0), 0) << "not recursive";
  EXPECT_EQ(tries(2, lock_at(1)), -1);
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_EQ(answer(2), 1);
  EXPECT_TRUE(m.engine(2).holds(0, lock_at(1)));
}

TEST_F(ObjectsTest, TryOfALockThatAnotherClusterHoldsIsAnsweredAtOnce) {  // LK-10
  locks(0, lock_at(0));
  EXPECT_EQ(tries(1, lock_at(0)), -1);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockBusy, 1);
  EXPECT_EQ(answer(1), 0);
  EXPECT_FALSE(m.engine(1).holds(0, lock_at(0)));
  // The token comes when it is free, and serves a later try without a message.
  EXPECT_EQ(tries(1, lock_at(0)), 0);
  unlocks(0, lock_at(0));
  EXPECT_EQ(tries(1, lock_at(0)), 1);
  unlocks(1, lock_at(0));
  EXPECT_TRUE(m.quiet());
}

TEST_F(ObjectsTest, AllTriesOfAClusterShareAnAnswer) {  // LK-10
  EXPECT_EQ(tries(1, lock_at(0), 0), -1);
  EXPECT_EQ(tries(1, lock_at(0), 1), -1);
  EXPECT_EQ(m.wire.size(), 1u);
  m.deliver_all();
  EXPECT_EQ(answer(1, 0), 1);
  EXPECT_EQ(answer(1, 1), 0);
  locks(2, lock_at(2));
  EXPECT_EQ(tries(0, lock_at(2), 0), -1);
  EXPECT_EQ(tries(0, lock_at(2), 1), -1);
  m.deliver_all();
  EXPECT_EQ(answer(0, 0), 0);
  EXPECT_EQ(answer(0, 1), 0);
}

TEST_F(ObjectsTest, TryFailsWhereNodesWaitForTheLock) {  // LK-10
  locks(0, lock_at(0));
  EXPECT_FALSE(m.engine(1).lock(0, lock_at(0)));
  m.deliver_all();
  EXPECT_EQ(tries(1, lock_at(0), 1), 0);
  EXPECT_EQ(tries(2, lock_at(0)), -1);
  m.deliver_all();
  EXPECT_EQ(answer(2), 0);
  unlocks(0, lock_at(0));
  EXPECT_TRUE(m.engine(1).holds(0, lock_at(0)));
}

TEST_F(ObjectsTest, NodeThatLocksAfterATryGetsItsToken) {  // LK-10
  locks(0, lock_at(0));
  EXPECT_EQ(tries(1, lock_at(0)), -1);
  EXPECT_FALSE(m.engine(1).lock(1, lock_at(0)));
  m.deliver_all();
  EXPECT_EQ(answer(1, 0), 0);
  EXPECT_FALSE(m.engine(1).done(1));
  unlocks(0, lock_at(0));
  EXPECT_TRUE(m.engine(1).holds(1, lock_at(0)));
}

TEST_F(ObjectsTest, TokenThatOnlyTriesHaveAskedForGoesOnAtOnce) {  // LK-10
  locks(0, lock_at(0));
  EXPECT_EQ(tries(1, lock_at(0)), -1);
  m.deliver_all();
  EXPECT_FALSE(m.engine(2).lock(0, lock_at(0)));
  m.deliver_all();
  unlocks(0, lock_at(0));
  EXPECT_TRUE(m.engine(2).holds(0, lock_at(0)));
}

TEST_F(ObjectsTest, RequestsThatNoNodeWaitsForAreBounded) {  // LK-10
  for (std::uint32_t i = 0; i < 100; ++i) locks(0, lock_at(0, i));
  for (std::uint32_t i = 0; i < 100; ++i) {
    const int at_once = tries(1, lock_at(0, i));
    EXPECT_EQ(at_once, i < Outbox::kMaxIdleRequests ? -1 : 0) << i;
    m.deliver_all();
    EXPECT_EQ(answer(1), 0);
  }
  for (std::uint32_t i = 0; i < 100; ++i) unlocks(0, lock_at(0, i));
  EXPECT_TRUE(m.quiet());
  EXPECT_EQ(tries(1, lock_at(0, 99)), -1);
  m.deliver_all();
  EXPECT_EQ(answer(1), 1);
}

TEST(HostileObjects, MessagesAboutAddressesOutOfRangeAreRefused) {  // PG-19
  EngineMachine m(ObjectsTest::config());
  const auto send = [&](Kind kind, std::uint32_t id, std::uint32_t number, std::uint8_t format,
                        std::size_t payload) {
    std::vector<std::byte> bytes(kHeaderBytes + payload);
    write_header(bytes, {.kind = kind, .format = format, .id = id, .number = number});
    const std::uint64_t before = m.engine(0).counts().bad_messages;
    m.engine(0).on_message(ClusterId(1), bytes);
    m.engine(0).check();
    return m.engine(0).counts().bad_messages - before;
  };
  const std::uint32_t behind = kLocks + 4 * addresses_per_page(PageLength());
  EXPECT_EQ(send(Kind::kLockRequest, behind, 0, 0, 0), 1u);
  EXPECT_EQ(send(Kind::kLockRequest, ~0u, 0, 1, 0), 1u);
  EXPECT_EQ(send(Kind::kLockRequest, kLocks + addresses_per_page(PageLength()), 0, 0, 0), 1u)
      << "cluster 1's";
  EXPECT_EQ(send(Kind::kLockRequest, kLocks, 0, 2, 0), 1u) << "no such format";
  EXPECT_EQ(send(Kind::kLockGrant, kLocks, 0, 0, 0), 1u);
  EXPECT_EQ(send(Kind::kLockBusy, behind, 0, 0, 0), 1u);
  EXPECT_EQ(send(Kind::kLockProbeReply, kLocks, 0, 0, 0), 1u);
  EXPECT_EQ(send(Kind::kLockRecall, kLocks + addresses_per_page(PageLength()), 2, 1, 0), 1u) << "not here";
  EXPECT_EQ(send(Kind::kSyncCall, 4 * addresses_per_page(PageLength()), 0,
                 static_cast<std::uint8_t>(SyncOp::kGather), 16),
            1u);
  EXPECT_EQ(send(Kind::kSyncCall, addresses_per_page(PageLength()), 0,
                 static_cast<std::uint8_t>(SyncOp::kGather), 16),
            1u);
  EXPECT_EQ(send(Kind::kLockBusy, kLocks, 0, 0, 0), 0u) << "it ends no try";
  // A cluster cannot ask for more tokens than its nodes can wait for.
  std::uint64_t refused = 0;
  for (std::uint32_t i = 0; i < 200; ++i) refused += send(Kind::kLockRequest, kLocks + i, 0, 0, 0);
  EXPECT_EQ(refused, 200 - Outbox::max_tokens(m.config()));
}

}  // namespace
}  // namespace braid::dsm
