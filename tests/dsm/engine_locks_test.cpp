// Locks as tokens: scenarios. Three clusters of three nodes; lock 0 is managed by cluster 0, lock 1 by
// cluster 1.
#include <gtest/gtest.h>

#include "engine_machine.h"

namespace braid::dsm {
namespace {

constexpr LockId kLock{0};

struct LocksTest : testing::Test {
  static EngineConfig config(std::uint32_t local_handoffs) {
    return {.clusters = 3,
            .compute_nodes = 3,
            .pages = 3,
            .locks = 3,
            .barriers = 1,
            .flush_window = 4,
            .local_handoffs = local_handoffs,
            .twins = 8,
            .pack = false};
  }
  explicit LocksTest(std::uint32_t local_handoffs = 16) : m(config(local_handoffs)) {}
  ~LocksTest() override { EXPECT_EQ(m.bad_messages(), 0u); }

  // The node waits for the lock; its cluster's request, if there is one, is put on the wire.
  void waits(std::uint16_t cluster, std::uint16_t node = 0) {
    EXPECT_FALSE(m.engine(cluster).lock(node, kLock));
    m.transmit_all();
  }
  void unlocks(std::uint16_t cluster, std::uint16_t node = 0) {
    m.engine(cluster).unlock(node, kLock);
    m.transmit_all();
    m.check();
  }
  bool has(std::uint16_t cluster, std::uint16_t node = 0) { return m.engine(cluster).done(node); }

  EngineMachine m;
};

TEST_F(LocksTest, ManagersClusterTakesAFreeLockAtOnce) {  // LK-1
  EXPECT_TRUE(m.engine(0).lock(0, kLock));
  EXPECT_EQ(m.engine(0).node_counts(0).remote_locks, 0u);
  unlocks(0);
  EXPECT_TRUE(m.quiet());
}

TEST_F(LocksTest, AnotherClusterRequestsTheTokenFromTheManager) {  // LK-1
  waits(1);
  EXPECT_EQ(m.engine(1).node_counts(0).remote_locks, 1u);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockGrant, 1);
  EXPECT_TRUE(has(1));
}

TEST_F(LocksTest, LockingWhereTheTokenIsCostsNoMessageAndNoFlush) {  // LK-2
  m.lock(1, 0);
  m.write(1, 0, 1);
  unlocks(1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(m.engine(1).lock(static_cast<std::uint16_t>(i % 3), kLock));
    unlocks(1, static_cast<std::uint16_t>(i % 3));
  }
  EXPECT_TRUE(m.wire.empty());
  EXPECT_EQ(m.engine(1).counts().diffs_sent, 0u);
}

TEST_F(LocksTest, NodesOfAClusterGetTheLockInTheOrderOfTheirCalls) {  // LK-2
  m.lock(1, 0, 2);
  waits(1, 1);
  waits(1, 0);
  EXPECT_TRUE(m.wire.empty());
  unlocks(1, 2);
  EXPECT_TRUE(has(1, 1));
  EXPECT_FALSE(has(1, 0));
  unlocks(1, 1);
  EXPECT_TRUE(has(1, 0));
}

TEST_F(LocksTest, ClustersGetTheTokenInTheOrderOfTheirRequests) {  // LK-1
  m.lock(0, 0);
  waits(2);
  waits(1);
  m.deliver_all();
  unlocks(0);
  m.deliver_all();
  EXPECT_TRUE(has(2));
  EXPECT_FALSE(has(1));
  unlocks(2);
  m.deliver_all();
  EXPECT_TRUE(has(1));
}

TEST_F(LocksTest, RecalledFreeTokenLeaves) {  // LK-3
  m.lock(1, 0);
  unlocks(1);
  waits(2);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockRecall, 1);
  m.deliver(Kind::kLockReturn, 0);
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_TRUE(has(2));
}

TEST_F(LocksTest, TokenStaysUntilEveryWriteIsVisible) {  // LK-3, PG-17
  m.read(2, 0);                                          // homed at cluster 0
  m.lock(1, 0);
  m.write(1, 0, 9);
  waits(2);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockRecall, 1);
  EXPECT_EQ(m.count(Kind::kDiff), 0u);  // the lock is held
  unlocks(1);
  m.deliver(Kind::kDiff, 0);
  EXPECT_EQ(m.count(Kind::kLockReturn), 0u);
  m.deliver(Kind::kInvalidate, 2);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kLockReturn), 0u);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.count(Kind::kLockReturn), 1u);
  EXPECT_FALSE(has(2));
  m.deliver_all();
  EXPECT_TRUE(has(2));
  EXPECT_EQ(m.read(2, 0), 9);
}

TEST_F(LocksTest, RecallThatOvertakesItsGrantIsKept) {  // LK-4
  waits(1);
  m.deliver(Kind::kLockRequest, 0);  // the grant leaves, and is slow
  waits(2);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockRecall, 1);
  EXPECT_FALSE(has(1));
  m.deliver(Kind::kLockGrant, 1);
  EXPECT_TRUE(has(1));  // its turn first
  unlocks(1);
  m.deliver(Kind::kLockReturn, 0);
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_TRUE(has(2));
}

TEST_F(LocksTest, GrantWithOtherWaitersIsARecall) {  // LK-4
  m.lock(0, 0);
  waits(1);
  waits(2);
  m.deliver_all();
  unlocks(0);
  m.deliver(Kind::kLockGrant, 1);
  EXPECT_EQ(m.count(Kind::kLockRecall), 0u);
  unlocks(1);
  m.deliver(Kind::kLockReturn, 0);
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_TRUE(has(2));
}

TEST_F(LocksTest, NodeThatWaitsWhileTheTokenLeavesMakesTheClusterRequestItAgain) {  // LK-6
  m.lock(1, 0);
  m.write(1, 0, 1);
  unlocks(1);
  waits(2);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockRecall, 1);  // the release is in flight
  waits(1, 1);
  EXPECT_EQ(m.count(Kind::kLockRequest), 0u);
  m.deliver_all();
  EXPECT_TRUE(has(2));
  EXPECT_FALSE(has(1, 1));
  unlocks(2);
  m.deliver_all();
  EXPECT_TRUE(has(1, 1));
}

TEST_F(LocksTest, RequestThatOvertakesTheReturnIsServedLast) {  // LK-7
  m.lock(1, 0);
  waits(2);
  m.deliver_all();
  unlocks(1);  // the token is returning
  ASSERT_EQ(m.count(Kind::kLockReturn), 1u);
  waits(1, 1);
  m.deliver(Kind::kLockRequest, 0);
  EXPECT_EQ(m.bad_messages(), 0u);
  m.deliver(Kind::kLockReturn, 0);
  m.deliver_all();
  EXPECT_TRUE(has(2));
  unlocks(2);
  m.deliver_all();
  EXPECT_TRUE(has(1, 1));
}

TEST_F(LocksTest, ManagersClusterWaitsItsTurn) {  // LK-1
  m.lock(1, 0);
  waits(0);
  EXPECT_EQ(m.engine(0).node_counts(0).remote_locks, 1u);
  waits(2);
  m.deliver_all();
  unlocks(1);
  m.deliver(Kind::kLockReturn, 0);
  EXPECT_TRUE(has(0));
  unlocks(0);
  m.deliver_all();
  EXPECT_TRUE(has(2));
}

struct FewHandoffs : LocksTest {
  FewHandoffs() : LocksTest(2) {}
};

TEST_F(FewHandoffs, RecalledTokenLeavesAfterTheLocalHandoffs) {  // LK-5
  m.lock(1, 0, 0);
  waits(1, 1);
  waits(1, 2);
  waits(2);
  m.deliver_all();
  unlocks(1, 0);
  ASSERT_TRUE(has(1, 1));  // once
  waits(1, 0);
  unlocks(1, 1);
  ASSERT_TRUE(has(1, 2));  // twice
  unlocks(1, 2);
  EXPECT_FALSE(has(1, 0));
  m.deliver_all();
  EXPECT_TRUE(has(2));
  unlocks(2);
  m.deliver_all();
  EXPECT_TRUE(has(1, 0));  // LK-6
  EXPECT_EQ(m.engine(1).node_counts(0).lock_calls, 2u);
}

TEST_F(FewHandoffs, HandoffsAreNotCountedWithoutARecall) {  // LK-5
  m.lock(1, 0, 0);
  for (std::uint16_t i = 0; i < 9; ++i) {
    const auto next = static_cast<std::uint16_t>((i + 1) % 3);
    waits(1, next);
    unlocks(1, i % 3);
    ASSERT_TRUE(has(1, next));
  }
  EXPECT_TRUE(m.wire.empty());
}

}  // namespace
}  // namespace braid::dsm
