// Open locks (LK-12): scenarios. Two clusters of two nodes; lock 0 is managed by cluster 0, and by default four locks can be
// open at once.
#include <gtest/gtest.h>

#include <vector>

#include "dsm/engine/state_sink.h"
#include "engine_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

constexpr LockId kLock{0};

struct OpenLocks : testing::Test {
  static EngineConfig config(std::uint32_t lock_words = 4) {
    return {.clusters = 2,
            .compute_nodes = 2,
            .pages = 8,
            .locks = 64,
            .barriers = 1,
            .local_handoffs = 0,
            .lease_uses = 3,
            .lease_rounds = 1,
            .twins = 8,
            .fetch_ahead = 4,
            .lock_words = lock_words};
  }
  ~OpenLocks() override { EXPECT_EQ(m.bad_messages(), 0u); }

  bool takes(std::uint16_t cluster, std::uint16_t node = 0, LockId lock = kLock) {
    return m.engine(cluster).take_open_lock(node, lock);
  }
  bool frees(std::uint16_t cluster, std::uint16_t node = 0, LockId lock = kLock) {
    return m.engine(cluster).free_open_lock(node, lock);
  }
  // A node of cluster 0 has had the lock, and has freed it.
  void open(LockId lock = kLock) {
    ASSERT_TRUE(m.engine(0).lock(0, lock));
    ASSERT_TRUE(frees(0, 0, lock));
  }
  // Cluster 1 requests the lock, and cluster 0 knows.
  void recall() {
    ASSERT_FALSE(m.engine(1).lock(0, kLock));
    m.deliver(Kind::kLockRequest, 0);
  }

  EngineMachine m{config()};
};

TEST_F(OpenLocks, AreTakenAndFreedPastTheEngine) {  // LK-12
  EXPECT_FALSE(takes(0)) << "nobody has used it";
  ASSERT_TRUE(m.engine(0).lock(0, kLock));
  EXPECT_TRUE(frees(0));
  EXPECT_TRUE(takes(0, 1));
  EXPECT_FALSE(takes(0, 0));
  EXPECT_FALSE(frees(0, 0)) << "the other node has it";
  EXPECT_TRUE(frees(0, 1));
  EXPECT_FALSE(frees(0, 1));
  m.check();
  m.transmit_all();
  EXPECT_TRUE(m.wire.empty());
  EXPECT_EQ(m.engine(0).node_counts(0).lock_calls, 1u);
  EXPECT_EQ(m.engine(0).node_counts(1).lock_calls, 1u);
  EXPECT_FALSE(takes(1)) << "the token is elsewhere";
}

TEST_F(OpenLocks, HoldersAreKnown) {  // LK-12
  open();
  ASSERT_TRUE(takes(0, 1));
  EXPECT_TRUE(m.engine(0).holds(1, kLock));
  EXPECT_FALSE(m.engine(0).holds(0, kLock));
  EXPECT_EQ(m.engine(0).locks_of(1), "0");
  EXPECT_EQ(m.engine(0).locks_of(0), "");
  EXPECT_FALSE(m.engine(0).lock(0, kLock));
  EXPECT_EQ(m.engine(0).explain_wait(0), "waits for lock 0, which compute node 1 has");
}

TEST_F(OpenLocks, NodeThatWaitsClosesTheLockUntilItHasIt) {  // LK-12
  open();
  ASSERT_TRUE(takes(0, 1));
  ASSERT_FALSE(m.engine(0).lock(0, kLock));
  EXPECT_FALSE(frees(0, 1)) << "the engine must pass it on";
  EXPECT_TRUE(m.engine(0).unlock(1, kLock));
  EXPECT_TRUE(m.engine(0).done(0));
  EXPECT_TRUE(frees(0, 0)) << "nobody waits any more";
}

TEST_F(OpenLocks, RecallClosesAFreeLockWhoseTokenLeavesWithWhatWasWritten) {  // LK-12
  m.set_home(0, 8, 1);
  open();
  ASSERT_TRUE(takes(0));
  m.write(0, 0, 7);
  ASSERT_TRUE(frees(0));
  recall();
  EXPECT_FALSE(takes(0));
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u) << "the release comes first";
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).holds(0, kLock));
  EXPECT_EQ(m.read(1, 0), 7);
}

TEST_F(OpenLocks, RecallClosesAHeldLockWhichLeavesAtItsUnlock) {  // LK-12
  open();
  ASSERT_TRUE(takes(0));
  recall();
  EXPECT_FALSE(frees(0));
  EXPECT_TRUE(m.engine(0).holds(0, kLock));
  EXPECT_TRUE(m.engine(0).unlock(0, kLock));
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).holds(0, kLock));
  EXPECT_FALSE(takes(0));
}

TEST_F(OpenLocks, WordCountsTheUsesOfALease) {  // LK-12
  ASSERT_TRUE(m.engine(0).lock(0, kLock));
  recall();
  EXPECT_FALSE(frees(0)) << "the recall came before the first unlock: a lease begins";
  EXPECT_TRUE(m.engine(0).unlock(0, kLock));
  m.transmit_all();
  ASSERT_EQ(m.count(Kind::kLockProbe), 1u);
  for (int use = 0; use < 2; ++use) {
    EXPECT_TRUE(takes(0, 1));
    EXPECT_TRUE(frees(0, 1));
    m.check();
  }
  EXPECT_TRUE(takes(0, 1));
  EXPECT_FALSE(frees(0, 1)) << "its last use";
  EXPECT_TRUE(m.engine(0).unlock(1, kLock));
  m.transmit_all();
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

TEST_F(OpenLocks, UsesPastTheEngineKeepALeaseForAnotherRound) {  // LK-12
  EngineConfig c = config();
  c.lease_uses = 8;
  c.lease_rounds = 2;
  EngineMachine machine{c};
  Engine& engine = machine.engine(0);
  ASSERT_TRUE(engine.lock(0, kLock));
  ASSERT_FALSE(machine.engine(1).lock(0, kLock));
  machine.deliver(Kind::kLockRequest, 0);
  (void)engine.unlock(0, kLock);
  for (int use = 0; use < 2; ++use) {
    EXPECT_TRUE(engine.take_open_lock(0, kLock));
    EXPECT_TRUE(engine.free_open_lock(0, kLock));
  }
  machine.deliver(Kind::kLockProbe, 1);
  machine.deliver(Kind::kLockProbeReply, 0);
  EXPECT_EQ(machine.count(Kind::kLockProbe), 1u) << "another round";
  EXPECT_TRUE(engine.take_open_lock(0, kLock));
  EXPECT_TRUE(engine.free_open_lock(0, kLock));
  machine.deliver(Kind::kLockProbe, 1);
  machine.deliver(Kind::kLockProbeReply, 0);
  EXPECT_EQ(machine.count(Kind::kLockGrant), 1u) << "the last round";
  EXPECT_FALSE(engine.take_open_lock(0, kLock));
}

TEST_F(OpenLocks, LocksThatShareAPlaceAreOpenInTurn) {  // LK-12
  EngineMachine one{config(1)};
  Engine& engine = one.engine(0);
  ASSERT_TRUE(engine.lock(0, LockId(0)));
  ASSERT_TRUE(engine.lock(1, LockId(2)));
  EXPECT_EQ(engine.locks_of(0), "0");
  EXPECT_FALSE(engine.free_open_lock(0, LockId(0))) << "lock 2 has the place";
  EXPECT_TRUE(engine.holds(0, LockId(0)));
  EXPECT_TRUE(engine.unlock(0, LockId(0)));
  EXPECT_FALSE(engine.free_open_lock(1, LockId(2))) << "lock 0 has it again";
  EXPECT_TRUE(engine.holds(1, LockId(2)));
  EXPECT_TRUE(engine.take_open_lock(0, LockId(0)));
  one.check();
}

TEST_F(OpenLocks, TryOfAHeldOneFailsAndLeavesItOpen) {  // LK-12
  open();
  ASSERT_TRUE(takes(0, 1));
  EXPECT_TRUE(m.engine(0).try_lock(0, kLock));
  EXPECT_EQ(m.engine(0).result(0), 0u);
  EXPECT_TRUE(frees(0, 1));
  EXPECT_TRUE(m.engine(0).try_lock(0, kLock));
  EXPECT_EQ(m.engine(0).result(0), 1u);
  EXPECT_TRUE(frees(0, 0));
}

TEST_F(OpenLocks, WaitForAConditionFreesTheLock) {  // LK-12
  EngineConfig c = config();
  c.conditions = 1;
  EngineMachine machine{c};
  Engine& engine = machine.engine(0);
  ASSERT_TRUE(engine.lock(0, kLock));
  ASSERT_TRUE(engine.free_open_lock(0, kLock));
  ASSERT_TRUE(engine.take_open_lock(0, kLock));
  EXPECT_FALSE(engine.sync(0, {.op = SyncOp::kConditionWait, .lock = kLock}));
  EXPECT_TRUE(engine.take_open_lock(1, kLock) || engine.lock(1, kLock));
  EXPECT_TRUE(engine.sync(1, {.op = SyncOp::kConditionSignal}));
  EXPECT_FALSE(engine.done(0));
  EXPECT_FALSE(engine.free_open_lock(1, kLock)) << "the woken node waits for it";
  EXPECT_TRUE(engine.unlock(1, kLock));
  EXPECT_TRUE(engine.done(0));
  EXPECT_TRUE(engine.holds(0, kLock));
}

// As lock() does.
TEST_F(OpenLocks, TakingOneEndsAScan) {  // PG-25
  m.set_home(0, 8, 1);
  open();
  const auto reads = [&](std::uint32_t page) { (void)m.read(0, page * kPageBytes); };
  reads(0);
  ASSERT_TRUE(takes(0));
  ASSERT_TRUE(frees(0));
  reads(1);
  EXPECT_EQ(m.engine(0).counts().fetched_ahead, 0u) << "the node synchronised";
  reads(2);
  EXPECT_EQ(m.engine(0).counts().fetched_ahead, 2u);
}

TEST_F(OpenLocks, NoneIsOpenWhereEachUnlockIsARelease) {  // LK-12
  EngineConfig c = config();
  c.release_at_unlock = true;
  EngineMachine machine{c};
  ASSERT_TRUE(machine.engine(0).lock(0, kLock));
  EXPECT_FALSE(machine.engine(0).free_open_lock(0, kLock));
}

TEST_F(OpenLocks, AtAnAddressTooAndNothingIsKeptWhenTheTokenIsBackUnused) {  // LK-12
  EngineConfig c = config();
  c.addresses = c.pages * addresses_per_page(c.page_length);
  EngineMachine machine{c};
  const LockId lock(c.locks + 5);
  Engine& engine = machine.engine(0);
  ASSERT_TRUE(engine.lock(0, lock));
  EXPECT_TRUE(engine.free_open_lock(0, lock));
  EXPECT_TRUE(engine.take_open_lock(1, lock));
  EXPECT_NE(engine.locks_of(1), "");
  EXPECT_TRUE(engine.free_open_lock(1, lock));
  machine.check();
  EXPECT_FALSE(machine.engine(1).lock(0, lock));
  machine.deliver_all();
  EXPECT_TRUE(machine.engine(1).holds(0, lock));
  EXPECT_FALSE(engine.take_open_lock(0, lock));
  machine.check();
}

// The state of a machine as a checker sees it.
struct Values final : StateSink {
  void value(std::uint64_t v) override { all.push_back(v); }
  void version(PageId, std::uint32_t) override {}
  void place(ClusterId, ClusterId, std::uint32_t) override {}
  void bytes(ByteView) override {}
  std::vector<std::uint64_t> all;
};

TEST_F(OpenLocks, StateIsThatOfALockWhoseCallsTheEngineHears) {  // LK-12
  EngineMachine closed{config(0)};
  const auto expect_equal = [&](const char* when) {
    Values a, b;
    m.engine(0).describe(a);
    closed.engine(0).describe(b);
    EXPECT_EQ(a.all, b.all) << when;
  };
  ASSERT_TRUE(m.engine(0).lock(0, kLock) && closed.engine(0).lock(0, kLock));
  expect_equal("held");
  ASSERT_TRUE(frees(0) && closed.engine(0).unlock(0, kLock));
  expect_equal("free");
  ASSERT_TRUE(takes(0, 1) && closed.engine(0).lock(1, kLock));
  EXPECT_FALSE(closed.engine(0).take_open_lock(1, kLock));
  expect_equal("held by the other node");
  ASSERT_FALSE(m.engine(0).lock(0, kLock) || closed.engine(0).lock(0, kLock));
  expect_equal("waited for");
}

}  // namespace
}  // namespace braid::dsm
