// The collective call in progress: the clusters that it must be sent to, that are awaited, and that may leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "dsm/live/current_call.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;
using Loss = CurrentCall::Loss;

CollectiveCall call_of(CallKind kind, std::uint64_t number = 0) {
  CollectiveCall call;
  call.kind = kind;
  call.numbers[0] = number;
  return call;
}

ByteView bytes_of(const CallMessage& m) {
  return std::as_bytes(std::span(&m, 1));
}

// Cluster 1 of three, with its peers' sides.
struct Three {
  CurrentCall self{ClusterId(1), 3};
  CurrentCall peers[3] = {{ClusterId(0), 3}, {ClusterId(1), 3}, {ClusterId(2), 3}};

  void peer_takes(std::uint16_t peer, const CollectiveCall& call) {
    peers[peer].begin(call);
    EXPECT_TRUE(self.on_message(ClusterId(peer), bytes_of(peers[peer].message())));
  }
};

TEST(CurrentCall, EveryOtherClusterIsSentTheCallOnce) {
  Three t;
  EXPECT_TRUE(t.self.unsent().empty());
  t.self.begin(call_of(CallKind::kParallel));
  EXPECT_EQ(t.self.unsent().words()[0], 0b101u);
  t.self.sent(ClusterId(2));
  EXPECT_EQ(t.self.unsent().words()[0], 0b001u);
  t.self.sent(ClusterId(0));
  EXPECT_TRUE(t.self.unsent().empty());
}

TEST(CurrentCall, CompletesWhenAllOthersHaveMadeIt) {
  Three t;
  t.peer_takes(2, call_of(CallKind::kParallel));
  t.self.begin(call_of(CallKind::kParallel));
  EXPECT_TRUE(t.self.in_progress());
  EXPECT_FALSE(t.self.complete());
  EXPECT_EQ(t.self.missing(), " 0");
  t.peer_takes(0, call_of(CallKind::kParallel));
  EXPECT_TRUE(t.self.complete());
  EXPECT_EQ(t.self.missing(), "");
  t.self.end();
  EXPECT_FALSE(t.self.in_progress());
}

TEST(CurrentCall, DisagreementCompletesItAndIsExplained) {
  Three t;
  t.self.begin(call_of(CallKind::kAllocate, 4096));
  t.peer_takes(2, call_of(CallKind::kFinish));
  EXPECT_TRUE(t.self.complete()) << "cluster 0 is not waited for";
  EXPECT_TRUE(t.self.disagreement());
  EXPECT_THAT(t.self.explain(), HasSubstr("cluster 2 called finish()"));
}

TEST(CurrentCall, CallOfASingleClusterIsCompleteAtOnce) {
  CurrentCall call(ClusterId(0), 1);
  call.begin(call_of(CallKind::kJoin));
  EXPECT_TRUE(call.unsent().empty());
  EXPECT_TRUE(call.complete());
}

TEST(CurrentCall, EveryOtherClusterOfTheLargestMachineIsSentTheCall) {
  CurrentCall call(ClusterId(63), kMaxClusters);
  call.begin(call_of(CallKind::kJoin));
  EXPECT_EQ(call.unsent().size(), kMaxClusters - 1);
  EXPECT_FALSE(call.unsent().contains(ClusterId(63)));
  EXPECT_TRUE(call.unsent().contains(ClusterId(kMaxClusters - 1)));
}

TEST(CurrentCall, DisconnectionBeforeFinishIsALoss) {
  Three t;
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLost);
  t.self.allow_leaving();
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLost) << "it has not called finish()";
  EXPECT_FALSE(t.self.left(ClusterId(0)));
}

TEST(CurrentCall, DisconnectionBeforeThisClusterFinishesIsALoss) {
  Three t;
  t.peer_takes(0, call_of(CallKind::kFinish));
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLost);
}

TEST(CurrentCall, ClusterThatDisconnectsAfterFinishIsNotAwaited) {
  Three t;
  t.self.allow_leaving();
  t.self.begin(call_of(CallKind::kFinish));
  t.peer_takes(0, call_of(CallKind::kFinish));
  t.peer_takes(2, call_of(CallKind::kFinish));
  t.self.end();
  t.self.begin(call_of(CallKind::kLeave));
  EXPECT_FALSE(t.self.complete());
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLeft);
  EXPECT_TRUE(t.self.left(ClusterId(0)));
  EXPECT_FALSE(t.self.left(ClusterId(2)));
  EXPECT_FALSE(t.self.complete());
  t.peer_takes(2, call_of(CallKind::kLeave));
  EXPECT_TRUE(t.self.complete());
}

TEST(CurrentCall, ClusterThatHasLeftIsSentNoFurtherCall) {
  Three t;
  t.self.allow_leaving();
  t.self.begin(call_of(CallKind::kFinish));
  t.peer_takes(0, call_of(CallKind::kFinish));
  ASSERT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLeft);
  t.self.end();
  t.self.begin(call_of(CallKind::kLeave));
  EXPECT_EQ(t.self.unsent().words()[0], 0b100u);
}

TEST(CurrentCall, DisconnectionOfAClusterThatDisagreesIsNoLoss) {
  Three t;
  t.self.begin(call_of(CallKind::kAllocate, 4096));
  t.peer_takes(0, call_of(CallKind::kAllocate, 8192));
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kDisagreed);
  EXPECT_FALSE(t.self.left(ClusterId(0)));
}

TEST(CurrentCall, MessagesOutOfTurnAreRefused) {
  Three t;
  t.self.begin(call_of(CallKind::kJoin));
  CallMessage two_ahead;
  two_ahead.sequence = 3;
  EXPECT_FALSE(t.self.on_message(ClusterId(0), bytes_of(two_ahead)));
}

}  // namespace
}  // namespace braid::dsm
