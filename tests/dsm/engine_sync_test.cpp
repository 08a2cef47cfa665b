// Words, flags, semaphores and condition variables: scenarios. Three clusters of two nodes; variable 0
// lives at cluster 0, variable 1 at cluster 1.
#include <gtest/gtest.h>

#include "engine_machine.h"

namespace braid::dsm {
namespace {

struct SyncTest : testing::Test {
  static EngineConfig config() {
    EngineConfig c{.clusters = 3, .compute_nodes = 2, .pages = 3, .locks = 3, .barriers = 1, .twins = 8};
    c.lease_uses = 0;
    c.pack = false;
    c.words = 5;
    c.flags = 4;
    c.semaphores = 3;
    c.conditions = 7;
    return c;
  }
  ~SyncTest() override { EXPECT_EQ(m.bad_messages(), 0u); }

  // Makes the node's call, and sends the messages of its cluster. True if the call is complete.
  bool calls(std::uint16_t cluster, std::uint16_t node, SyncOp op, std::uint32_t id, std::uint64_t first = 0,
             std::uint64_t second = 0) {
    const bool complete =
        m.engine(cluster).sync(node, {.op = op, .id = id, .first = first, .second = second});
    m.transmit_all();
    m.check();
    return complete;
  }
  std::uint64_t result(std::uint16_t cluster, std::uint16_t node, SyncOp op, std::uint32_t id,
                       std::uint64_t first = 0, std::uint64_t second = 0) {
    (void)calls(cluster, node, op, id, first, second);
    m.deliver_all();
    EXPECT_TRUE(m.engine(cluster).done(node));
    return m.engine(cluster).result(node);
  }
  bool waits_for_condition(std::uint16_t cluster, std::uint16_t node, std::uint32_t id, std::uint32_t lock) {
    const bool complete =
        m.engine(cluster).sync(node, {.op = SyncOp::kConditionWait, .id = id, .lock = LockId(lock)});
    m.transmit_all();
    m.check();
    return complete;
  }
  bool done(std::uint16_t cluster, std::uint16_t node) { return m.engine(cluster).done(node); }

  EngineMachine m{config()};
};

TEST_F(SyncTest, OperationsOnAWordReturnTheValueBefore) {  // SY-1
  for (const std::uint32_t word : {0u, 1u, 4u}) {          // 4 lives at cluster 1
    EXPECT_EQ(result(0, 0, SyncOp::kWordLoad, word), 0u);
    EXPECT_EQ(result(1, 0, SyncOp::kWordAdd, word, 5), 0u);
    EXPECT_EQ(result(2, 1, SyncOp::kWordAdd, word, ~std::uint64_t{0}), 5u);  // minus one
    EXPECT_EQ(result(0, 1, SyncOp::kWordCompareExchange, word, 5, 9), 4u);   // fails
    EXPECT_EQ(result(0, 1, SyncOp::kWordCompareExchange, word, 4, 9), 4u);
    EXPECT_EQ(result(1, 1, SyncOp::kWordExchange, word, 1ull << 63), 9u);
    EXPECT_EQ(result(2, 0, SyncOp::kWordStore, word, 3), 1ull << 63);
    EXPECT_EQ(result(2, 0, SyncOp::kWordLoad, word), 3u);
  }
  EXPECT_EQ(result(2, 0, SyncOp::kWordLoad, 2), 0u) << "the others are untouched";
  EXPECT_EQ(m.engine(0).node_counts(1).sync_calls, 6u);
  EXPECT_TRUE(m.quiet());
}

TEST_F(SyncTest, WordAtItsHomeNeedsNoMessage) {  // SY-1
  EXPECT_TRUE(calls(1, 0, SyncOp::kWordAdd, 1, 7));
  EXPECT_TRUE(calls(1, 1, SyncOp::kWordAdd, 1, 1));
  EXPECT_EQ(m.engine(1).result(1), 7u);
  EXPECT_TRUE(m.wire.empty());
}

TEST_F(SyncTest, ReleasingOperationWaitsUntilEveryWriteIsVisible) {  // SY-2
  m.read(2, 0);                                                      // homed at cluster 0
  m.write(1, 0, 9);
  EXPECT_FALSE(m.engine(1).sync(0, {.op = SyncOp::kFlagSet, .id = 0, .releases = true}));
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kInvalidate, 2);
  EXPECT_EQ(m.count(Kind::kSyncCall), 0u);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kSyncCall), 0u);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.count(Kind::kSyncCall), 1u);
  m.deliver_all();
  EXPECT_EQ(m.read(2, 0), 9);
}

TEST_F(SyncTest, OperationThatDoesNotReleaseSendsNoDiff) {  // SY-2
  m.write(1, 0, 9);
  EXPECT_EQ(result(1, 0, SyncOp::kWordAdd, 0, 1), 0u);
  EXPECT_EQ(m.engine(1).counts().diffs_sent, 0u);
}

TEST_F(SyncTest, SetFlagReleasesCurrentAndLaterWaiters) {  // SY-3
  EXPECT_FALSE(calls(0, 0, SyncOp::kFlagWait, 3));
  EXPECT_FALSE(calls(1, 0, SyncOp::kFlagWait, 3));
  EXPECT_FALSE(calls(1, 1, SyncOp::kFlagWait, 3));
  m.deliver_all();
  EXPECT_FALSE(done(0, 0) || done(1, 0) || done(1, 1));
  (void)result(2, 0, SyncOp::kFlagSet, 3);
  EXPECT_TRUE(done(0, 0) && done(1, 0) && done(1, 1));
  (void)result(2, 1, SyncOp::kFlagWait, 3);
  (void)result(0, 1, SyncOp::kFlagClear, 3);
  EXPECT_FALSE(calls(2, 1, SyncOp::kFlagWait, 3));
  m.deliver_all();
  EXPECT_FALSE(done(2, 1));
  // The nodes that waited when it was set are woken, also when it is cleared at once.
  (void)calls(0, 0, SyncOp::kFlagSet, 3);
  (void)calls(0, 0, SyncOp::kFlagClear, 3);
  m.deliver_all();
  EXPECT_TRUE(done(2, 1));
  EXPECT_TRUE(m.quiet());
}

TEST_F(SyncTest, SemaphoreServesCallsInOrder) {  // SY-3
  EXPECT_FALSE(calls(2, 0, SyncOp::kSemaphoreWait, 0));
  m.deliver_all();
  EXPECT_FALSE(calls(1, 1, SyncOp::kSemaphoreWait, 0));
  m.deliver_all();
  EXPECT_FALSE(calls(1, 0, SyncOp::kSemaphoreWait, 0));
  m.deliver_all();
  (void)result(0, 0, SyncOp::kSemaphorePost, 0, 1);
  EXPECT_TRUE(done(2, 0));
  EXPECT_FALSE(done(1, 1) || done(1, 0));
  (void)result(0, 0, SyncOp::kSemaphorePost, 0, 3);
  EXPECT_TRUE(done(1, 1) && done(1, 0));
  (void)result(2, 1, SyncOp::kSemaphoreWait, 0);  // the one that was left
  EXPECT_FALSE(calls(2, 0, SyncOp::kSemaphoreWait, 0));
  m.deliver_all();
  EXPECT_FALSE(done(2, 0));
}

TEST_F(SyncTest, SignalWakesTheLongestWaiterAndBroadcastAll) {  // SY-3, SY-6
  const auto wait = [&](std::uint16_t cluster, std::uint16_t node) {
    m.lock(cluster, 0, node);
    EXPECT_FALSE(waits_for_condition(cluster, node, 1, 0));
    m.deliver_all();
    EXPECT_FALSE(done(cluster, node));
  };
  wait(2, 1);
  wait(0, 0);
  wait(1, 0);
  wait(1, 1);
  (void)result(0, 1, SyncOp::kConditionSignal, 1);
  EXPECT_TRUE(done(2, 1) && m.engine(2).holds(1, LockId(0)));
  EXPECT_FALSE(done(0, 0) || done(1, 0) || done(1, 1));
  m.unlock(2, 0, 1);
  m.deliver_all();
  (void)result(0, 1, SyncOp::kConditionBroadcast, 1);
  EXPECT_EQ(done(0, 0) + done(1, 0) + done(1, 1), 1) << "one of them has the lock";
  for (int rest = 3; rest > 0; --rest) {
    for (const auto& [cluster, node] : {std::pair<std::uint16_t, std::uint16_t>{0, 0}, {1, 0}, {1, 1}}) {
      if (!m.engine(cluster).holds(node, LockId(0))) continue;
      EXPECT_TRUE(done(cluster, node));
      m.unlock(cluster, 0, node);
      m.deliver_all();
      break;
    }
  }
  EXPECT_TRUE(done(0, 0) && done(1, 0) && done(1, 1));
  EXPECT_TRUE(m.quiet());
}

TEST_F(SyncTest, SignalWithoutAWaiterIsForgotten) {  // SY-3
  (void)result(0, 1, SyncOp::kConditionSignal, 1);
  m.lock(2, 0, 0);
  EXPECT_FALSE(waits_for_condition(2, 0, 1, 0));
  m.deliver_all();
  EXPECT_FALSE(done(2, 0));
}

// The classic lost wake-up: between a node's check of the condition and its wait another node changes it and signals.
TEST_F(SyncTest, LockIsFreedOnlyWhenTheWaitIsQueued) {  // SY-5
  m.lock(2, 0, 0);
  EXPECT_FALSE(waits_for_condition(2, 0, 1, 0));
  EXPECT_FALSE(m.engine(1).lock(0, LockId(0)));  // who wants to signal needs the lock first
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kLockRecall, 2);
  EXPECT_TRUE(m.engine(2).holds(0, LockId(0)));
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  m.deliver(Kind::kSyncCall, 1);  // now it is queued at the home, and no other cluster knows
  EXPECT_TRUE(m.engine(2).holds(0, LockId(0)));
  m.deliver(Kind::kSyncResult, 2);
  EXPECT_FALSE(m.engine(2).holds(0, LockId(0)));
  m.deliver(Kind::kLockGrant, 1);
  ASSERT_TRUE(done(1, 0));
  EXPECT_TRUE(calls(1, 0, SyncOp::kConditionSignal, 1));  // at its home
  m.deliver_all();
  EXPECT_FALSE(done(2, 0)) << "the signaller still has the lock";
  m.unlock(1, 0, 0);
  m.deliver_all();
  EXPECT_TRUE(done(2, 0) && m.engine(2).holds(0, LockId(0)));
}

TEST_F(SyncTest, WakeUpThatOvertakesTheRegistrationIsKept) {  // SY-5
  m.lock(2, 0, 0);
  EXPECT_FALSE(waits_for_condition(2, 0, 1, 0));
  m.deliver(Kind::kSyncCall, 1);
  EXPECT_TRUE(calls(1, 0, SyncOp::kConditionSignal, 1));  // without the lock, which is allowed
  ASSERT_EQ(m.count(Kind::kSyncResult), 2u);
  m.deliver(m.wire.size() - 1);  // the wake-up
  EXPECT_FALSE(done(2, 0));
  m.deliver(Kind::kSyncResult, 2);
  EXPECT_TRUE(done(2, 0) && m.engine(2).holds(0, LockId(0)));
  EXPECT_TRUE(m.quiet());
}

TEST_F(SyncTest, NodeWithACallInProgressCannotMakeAnother) {  // SY-4
  EngineMachine forged(config());
  const auto send = [&](std::uint32_t node, SyncOp op) {
    std::vector<std::byte> bytes(kHeaderBytes + kSyncOperandBytes);
    write_header(bytes, {.kind = Kind::kSyncCall, .format = static_cast<std::uint8_t>(op), .number = node});
    forged.engine(0).on_message(ClusterId(1), bytes);
    forged.engine(0).check();
    return forged.engine(0).counts().bad_messages;
  };
  EXPECT_EQ(send(0, SyncOp::kFlagWait), 0u);
  EXPECT_EQ(send(0, SyncOp::kFlagWait), 1u);  // it waits
  EXPECT_EQ(send(1, SyncOp::kFlagSet), 1u);   // the other node
  EXPECT_EQ(send(1, SyncOp::kFlagSet), 2u);   // its answer has not left
  EXPECT_EQ(send(2, SyncOp::kFlagSet), 3u);   // there is no such node
  forged.transmit_all();
  EXPECT_EQ(forged.count(Kind::kSyncResult), 2u);
  EXPECT_EQ(send(0, SyncOp::kConditionWait), 3u);
  EXPECT_EQ(send(1, SyncOp::kConditionBroadcast), 3u);
  EXPECT_EQ(send(0, SyncOp::kFlagWait), 4u);  // two answers have not left
}

TEST(SyncMemory, VariablesTakeMemoryAtTheirHomeOnly) {  // SY-1
  EngineConfig c{.clusters = 2, .compute_nodes = 1, .pages = 1, .locks = 1, .barriers = 1, .twins = 2};
  c.words = c.flags = c.semaphores = 4096;
  c.conditions = 32768;
  EngineMachine m(c);
  for (const std::uint32_t id : {0u, 1u, 28'000u, 32'767u}) {
    m.lock(0, 0);
    EXPECT_FALSE(m.engine(0).sync(0, {.op = SyncOp::kConditionWait, .id = id, .lock = LockId(0)}));
    m.deliver_all();
    EXPECT_FALSE(m.engine(0).done(0));
    (void)m.engine(1).sync(0, {.op = SyncOp::kConditionSignal, .id = id});
    m.deliver_all();
    EXPECT_TRUE(m.engine(0).done(0));
    m.unlock(0, 0);
  }
  EXPECT_TRUE(m.quiet());
  EXPECT_EQ(m.bad_messages(), 0u);
}

}  // namespace
}  // namespace braid::dsm
