// Locks as tokens: scenarios. Three clusters of three nodes; lock 0 is managed by cluster 0, lock 1 by
// cluster 1.
#include <gtest/gtest.h>

#include "engine_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

constexpr LockId kLock{0};

struct LocksTest : testing::Test {
  static EngineConfig config(std::uint32_t local_handoffs, std::uint32_t lease_uses,
                             std::uint8_t lease_rounds) {
    return {.clusters = 3,
            .compute_nodes = 3,
            .pages = 3,
            .locks = 3,
            .barriers = 1,
            .flush_window = 4,
            .local_handoffs = local_handoffs,
            .lease_uses = lease_uses,
            .lease_rounds = lease_rounds,
            .twins = 8,
            .pack = false};
  }
  explicit LocksTest(std::uint32_t local_handoffs = 16, std::uint32_t lease_uses = 0,
                     std::uint8_t lease_rounds = 1)
      : m(config(local_handoffs, lease_uses, lease_rounds)) {}
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
  EXPECT_EQ(m.wire.size(), 1u);
  m.deliver(Kind::kLockGrant, 2);  // LK-9: past the manager
  EXPECT_TRUE(has(2));
}

TEST_F(LocksTest, TokenThatNoNodeHasHadLeavesWithoutARelease) {  // LK-3
  m.read(1, 0);
  m.write(0, 0, 3);  // at the home, which has to invalidate a copy at its next release
  waits(2);
  m.deliver(Kind::kLockRequest, 0);
  EXPECT_EQ(m.count(Kind::kInvalidate), 0u);
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
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  m.deliver(Kind::kInvalidate, 2);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
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
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_TRUE(has(2));
}

TEST_F(LocksTest, TokenGoesFromClusterToClusterPastTheManager) {  // LK-9
  m.lock(1, 0);
  waits(2);
  m.deliver_all();
  unlocks(1);
  EXPECT_EQ(m.wire.size(), 1u) << "the manager is told nothing";
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

TEST_F(LocksTest, RequestThatOvertakesTheTokenIsServedLast) {  // LK-7
  m.lock(1, 0);
  waits(2);
  m.deliver_all();
  unlocks(1);  // the token is in flight
  ASSERT_EQ(m.count(Kind::kLockGrant), 1u);
  waits(1, 1);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockRecall, 2);
  EXPECT_EQ(m.bad_messages(), 0u);
  m.deliver_all();
  EXPECT_TRUE(has(2));
  EXPECT_FALSE(has(1, 1));
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
  m.deliver(Kind::kLockGrant, 0);
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

// Cluster 1 gets the token, which cluster 2 waits for already, and its node has freed the lock once.
struct Leases : LocksTest {
  explicit Leases(std::uint32_t lease_uses = 3, std::uint32_t local_handoffs = 0,
                  std::uint8_t lease_rounds = 1)
      : LocksTest(local_handoffs, lease_uses, lease_rounds) {}

  void recalled_token_comes() {
    m.lock(0, 0);
    waits(1);
    waits(2);
    m.deliver_all();
    unlocks(0);
    deliver_replies();
    m.deliver(Kind::kLockGrant, 1);
    ASSERT_TRUE(has(1));
    unlocks(1);
  }
  // Of cluster 0's lease, if it has one.
  void deliver_replies() {
    while (m.count(Kind::kLockProbe) != 0) {
      m.deliver(Kind::kLockProbe, 1);
      m.deliver(Kind::kLockProbeReply, 0);
    }
  }
  bool locks_again() { return m.engine(1).lock(0, kLock); }
};

TEST_F(Leases, RecalledTokenStaysUntilTheNextClusterHasAnswered) {  // LK-8
  recalled_token_comes();
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  EXPECT_TRUE(locks_again());
  unlocks(1);
  EXPECT_EQ(m.count(Kind::kLockProbe), 1u) << "one for the stay";
  m.deliver(Kind::kLockProbe, 2);
  m.deliver(Kind::kLockProbeReply, 1);
  EXPECT_FALSE(locks_again());
  m.transmit_all();
  m.deliver_all();
  EXPECT_TRUE(has(2));
}

TEST_F(Leases, ReplyThatFindsTheLockHeldEndsTheLeaseAtItsUnlock) {  // LK-8
  recalled_token_comes();
  EXPECT_TRUE(locks_again());
  m.deliver(Kind::kLockProbe, 2);
  m.deliver(Kind::kLockProbeReply, 1);
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  unlocks(1);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

TEST_F(Leases, TokenLeavesAfterTheUsesOfALease) {  // LK-5, LK-8
  recalled_token_comes();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(locks_again()) << i;
    unlocks(1);
  }
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_TRUE(has(2));
  m.deliver_all();  // the late probe and its reply
  EXPECT_TRUE(m.engine(1).quiet());
}

TEST_F(Leases, NodesThatWaitDuringALeaseGetTheLockInIt) {  // LK-2, LK-8
  recalled_token_comes();
  EXPECT_TRUE(locks_again());
  waits(1, 1);
  unlocks(1);
  EXPECT_TRUE(has(1, 1));
  unlocks(1, 1);
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
}

TEST_F(Leases, LateRecallEndsTheStayAtOnce) {  // LK-8
  m.lock(1, 0);
  unlocks(1);
  EXPECT_TRUE(locks_again());
  waits(2);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockRecall, 1);
  unlocks(1);
  EXPECT_EQ(m.count(Kind::kLockProbe), 0u);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

// Leases of several rounds.
struct LongLeases : Leases {
  explicit LongLeases(std::uint8_t lease_rounds = 3) : Leases(9, 0, lease_rounds) {}

  void locks_again_and_unlocks(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(locks_again()) << i;
      unlocks(1);
    }
  }
  void reply_comes() {
    m.deliver(Kind::kLockProbe, 2);
    m.deliver(Kind::kLockProbeReply, 1);
    m.transmit_all();
  }
};

TEST_F(LongLeases, ReplyBeginsAnotherRoundWhileNodesKeepLocking) {  // LK-8
  recalled_token_comes();
  for (int round = 1; round < 3; ++round) {
    locks_again_and_unlocks(2);
    reply_comes();
    EXPECT_EQ(m.count_to(Kind::kLockProbe, 2), 1u) << "round " << round;
    EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  }
  locks_again_and_unlocks(2);
  reply_comes();  // of the third, which is the last
  EXPECT_EQ(m.count(Kind::kLockProbe), 0u);
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_TRUE(has(2));
}

TEST_F(LongLeases, RoundInWhichNodesLockOnceIsTheLast) {  // LK-8
  recalled_token_comes();
  locks_again_and_unlocks(2);
  reply_comes();
  locks_again_and_unlocks(1);
  reply_comes();
  EXPECT_EQ(m.count(Kind::kLockProbe), 0u);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

TEST_F(LongLeases, RoundsShareTheUsesOfALease) {  // LK-5
  recalled_token_comes();
  locks_again_and_unlocks(5);
  reply_comes();
  locks_again_and_unlocks(4);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

TEST_F(LongLeases, ReplyThatFindsTheLockHeldBeginsARoundToo) {  // LK-8
  recalled_token_comes();
  locks_again_and_unlocks(1);
  EXPECT_TRUE(locks_again());
  reply_comes();
  unlocks(1);
  EXPECT_EQ(m.count_to(Kind::kLockProbe, 2), 1u);
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  EXPECT_TRUE(locks_again());
}

TEST_F(LongLeases, LeaseWhoseFirstRoundWasUsedIsFollowedByAnother) {  // LK-8
  recalled_token_comes();
  locks_again_and_unlocks(2);
  reply_comes();
  reply_comes();  // nobody has locked again
  m.deliver(Kind::kLockGrant, 2);
  waits(1);
  m.deliver_all();
  waits(0);
  unlocks(2);
  m.deliver_all();
  ASSERT_TRUE(has(1));
  unlocks(1);
  EXPECT_EQ(m.count_to(Kind::kLockProbe, 0), 1u);
}

// Three clusters: 4 / (3 - 1).
struct LeasesOfUsualLength : LongLeases {
  LeasesOfUsualLength() : LongLeases(0) {}
};

TEST_F(LeasesOfUsualLength, HaveFewerRoundsTheMoreClustersThereAre) {  // LK-8
  recalled_token_comes();
  locks_again_and_unlocks(2);
  reply_comes();
  EXPECT_EQ(m.count(Kind::kLockProbe), 1u);
  locks_again_and_unlocks(2);
  reply_comes();
  EXPECT_EQ(m.count(Kind::kLockProbe), 0u);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

TEST_F(Leases, NextStayHasNoLeaseAfterOneThatNobodyUsed) {  // LK-8
  recalled_token_comes();
  EXPECT_EQ(m.count(Kind::kLockProbe), 1u);
  m.deliver_all();
  ASSERT_TRUE(has(2));
  for (const std::size_t probes : {0u, 1u}) {
    waits(1);
    m.deliver_all();
    waits(0);
    unlocks(2);
    m.deliver_all();
    ASSERT_TRUE(has(1));
    unlocks(1);
    EXPECT_EQ(m.count_to(Kind::kLockProbe, 0), probes);
    m.deliver_all();
    ASSERT_TRUE(has(0));
    waits(2);
    m.deliver_all();
    unlocks(0);
    m.deliver_all();
    ASSERT_TRUE(has(2));
  }
}

// LK-15. Tokens that were missed may stay for 10 us. Two clusters.
struct TimedLeases : testing::Test {
  static EngineConfig config() {
    EngineConfig c = LocksTest::config(0, 100, 0);
    c.clusters = 2;
    c.lease_time = 10_us;
    return c;
  }
  ~TimedLeases() override { EXPECT_EQ(m.bad_messages(), 0u); }

  void it_is(Duration time) {
    for (std::uint16_t c = 0; c < 2; ++c) m.engine(c).set_time(Instant::from_ns(time.ns()));
  }
  // False: the node has it at once.
  bool waits(std::uint16_t cluster, LockId lock = kLock) {
    const bool has = m.engine(cluster).lock(0, lock);
    m.transmit_all();
    return !has;
  }
  void unlocks(std::uint16_t cluster, LockId lock = kLock) {
    m.engine(cluster).unlock(0, lock);
    m.transmit_all();
    m.check();
  }
  // Cluster 1 gives the token away and asks for it again; it comes at `time`, and cluster 1 uses it once.
  void missed_token_comes(Duration time) {
    m.lock(1, 0);
    unlocks(1);
    ASSERT_TRUE(waits(0));
    m.deliver_all();
    unlocks(0);
    ASSERT_TRUE(waits(1));
    it_is(time);
    m.deliver_all();
    ASSERT_TRUE(m.engine(1).holds(0, kLock));
    unlocks(1);
  }
  void other_cluster_wants_it() {
    ASSERT_TRUE(waits(0));
    m.deliver(Kind::kLockRecall, 1);
  }
  void reply_comes() {
    m.deliver(Kind::kLockProbe, 0);
    m.deliver(Kind::kLockProbeReply, 1);
  }
  void uses(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_FALSE(waits(1)) << i;
      unlocks(1);
    }
  }
  void expect_stays() {
    EXPECT_EQ(m.count_to(Kind::kLockProbe, 0), 1u);
    EXPECT_EQ(m.count_to(Kind::kLockGrant, 0), 0u);
  }
  void expect_left() {
    EXPECT_EQ(m.count_to(Kind::kLockProbe, 0), 0u);
    EXPECT_EQ(m.count_to(Kind::kLockGrant, 0), 1u);
  }

  EngineMachine m{config()};
};

TEST_F(TimedLeases, LateRecallBeginsALeaseOfAMissedToken) {  // LK-15
  missed_token_comes(0_us);
  other_cluster_wants_it();
  expect_stays();
  uses(1);
  reply_comes();
  expect_left();  // used once in the round
}

TEST_F(TimedLeases, ThreeStaysAtMostHaveNoneAfterThoseThatWereNotUsed) {  // LK-15
  missed_token_comes(0_us);
  std::string leases;
  for (int stay = 0; stay < 15; ++stay) {
    other_cluster_wants_it();
    leases += m.count_to(Kind::kLockProbe, 0) != 0 ? 'L' : '-';
    if (leases.back() == 'L') reply_comes();
    expect_left();
    ASSERT_TRUE(waits(1));
    m.deliver_all();
    ASSERT_TRUE(m.engine(0).holds(0, kLock));
    unlocks(0);
    m.deliver_all();
    ASSERT_TRUE(m.engine(1).holds(0, kLock));
    unlocks(1);
  }
  EXPECT_EQ(leases, "L-L---L---L---L");
}

TEST_F(TimedLeases, TokenThatWasNotMissedLeavesAtALateRecall) {  // LK-15
  m.lock(1, 0);
  unlocks(1);
  other_cluster_wants_it();
  expect_left();
}

TEST_F(TimedLeases, TokenAfterWhichTwoOthersLeftIsNotMissed) {  // LK-15
  for (const LockId lock : {kLock, LockId(1), LockId(2)}) {
    m.lock(1, lock.value());
    unlocks(1, lock);
  }
  for (const LockId lock : {kLock, LockId(1), LockId(2)}) {
    ASSERT_TRUE(waits(0, lock));
    m.deliver_all();
    unlocks(0, lock);
  }
  ASSERT_TRUE(waits(1));
  m.deliver_all();
  unlocks(1);
  other_cluster_wants_it();
  expect_left();
}

TEST_F(TimedLeases, RoundsFollowEachOtherUntilTheTimeIsOver) {  // LK-15
  missed_token_comes(100_us);
  other_cluster_wants_it();
  for (int round = 0; round < 20; ++round) {
    uses(2);
    reply_comes();
    expect_stays();
  }
  it_is(110_us);
  uses(2);
  reply_comes();
  expect_left();
}

TEST_F(TimedLeases, NoneBeginsWhenTheTimeIsOver) {  // LK-15
  missed_token_comes(0_us);
  it_is(10_us);
  other_cluster_wants_it();
  expect_left();
}

TEST_F(TimedLeases, GoesOnWhileItsNodeWaitsForAPage) {  // LK-15
  missed_token_comes(0_us);
  other_cluster_wants_it();
  ASSERT_FALSE(m.engine(1).fault(0, PageId(0), Access::kRead));
  reply_comes();
  expect_stays();
}

TEST_F(TimedLeases, GoesOnWhileItsNodeWaitsForAnotherLock) {  // LK-15
  m.lock(0, 2, 1);
  missed_token_comes(0_us);
  other_cluster_wants_it();
  ASSERT_TRUE(waits(1, LockId(2)));
  reply_comes();
  expect_stays();
}

// Otherwise two clusters, each with the token that the other waits for, would both wait until the time is over.
TEST_F(TimedLeases, NoneBeginsWhileItsNodeWaitsForAnotherLock) {  // LK-15
  m.lock(0, 2, 1);
  missed_token_comes(0_us);
  ASSERT_TRUE(waits(1, LockId(2)));
  other_cluster_wants_it();
  expect_left();
}

struct ReleasesAtUnlock : testing::Test {
  static EngineConfig config() {
    EngineConfig c = EngineConfig::of(Protocol::kMgs);
    c.clusters = 2;
    c.compute_nodes = 2;
    c.pages = 2;
    c.locks = 2;
    c.barriers = 1;
    c.twins = 4;
    return c;
  }
  EngineMachine m{config()};
};

TEST_F(ReleasesAtUnlock, NodeWaitsForItsWritesBeforeItFreesTheLock) {  // LK-14
  m.lock(0, 0);                                                        // its manager's cluster has the token
  m.write(0, kPageBytes, 7);                                           // homed at cluster 1
  ASSERT_FALSE(m.engine(0).lock(1, LockId(0)));
  EXPECT_FALSE(m.engine(0).unlock(0, LockId(0)));
  EXPECT_FALSE(m.engine(0).done(0));
  EXPECT_NE(m.engine(0).explain_wait(0).find("to free lock 0"), std::string::npos);
  EXPECT_FALSE(m.engine(0).done(1)) << "the lock is not free yet";
  m.deliver(Kind::kDiff, 1);
  EXPECT_EQ(m.read(1, kPageBytes), 7);
  m.deliver_all();
  EXPECT_TRUE(m.engine(0).done(0));
  EXPECT_TRUE(m.engine(0).done(1));
  EXPECT_TRUE(m.engine(0).holds(1, LockId(0)));
  EXPECT_TRUE(m.engine(0).unlock(1, LockId(0))) << "nothing is dirty";
  EXPECT_TRUE(m.quiet());
}

TEST_F(ReleasesAtUnlock, PagesOfAReleaseGoHomeOneAfterTheOther) {
  EngineConfig c = config();
  c.pages = 4;
  EngineMachine machine{c};
  machine.set_home(0, 4, 1);
  machine.lock(0, 0);
  for (const std::size_t page : {0u, 1u, 2u}) machine.write(0, page * kPageBytes, 1);
  EXPECT_FALSE(machine.engine(0).unlock(0, LockId(0)));
  machine.transmit_all();
  EXPECT_EQ(machine.count(Kind::kDiff), 1u);
  machine.deliver_all();
  EXPECT_TRUE(machine.engine(0).done(0));
  EXPECT_EQ(machine.engine(0).counts().diffs_sent, 3u);
}

}  // namespace
}  // namespace braid::dsm
