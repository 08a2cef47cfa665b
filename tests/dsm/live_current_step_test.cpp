// The step that a cluster takes: whom it must still tell, for whom it waits, and who may leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsm/live/current_step.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;
using Loss = CurrentStep::Loss;

StepFacts facts_of(Step step, std::uint64_t number = 0) {
  StepFacts facts;
  facts.step = step;
  facts.numbers[0] = number;
  return facts;
}

ByteView bytes_of(const StepMessage& m) {
  return std::as_bytes(std::span(&m, 1));
}

// Cluster 1 of three, with its peers' sides.
struct Three {
  CurrentStep self{ClusterId(1), 3};
  CurrentStep peers[3] = {{ClusterId(0), 3}, {ClusterId(1), 3}, {ClusterId(2), 3}};

  void peer_takes(std::uint16_t peer, const StepFacts& facts) {
    peers[peer].begin(facts);
    EXPECT_TRUE(self.on_message(ClusterId(peer), bytes_of(peers[peer].message())));
  }
};

TEST(CurrentStep, EveryOtherClusterIsSentTheStepOnce) {
  Three t;
  EXPECT_EQ(t.self.unsent(), 0u);
  t.self.begin(facts_of(Step::kParallel));
  EXPECT_EQ(t.self.unsent(), 0b101u);
  t.self.sent(ClusterId(2));
  EXPECT_EQ(t.self.unsent(), 0b001u);
  t.self.sent(ClusterId(0));
  EXPECT_EQ(t.self.unsent(), 0u);
}

TEST(CurrentStep, CompletesWhenAllOthersHaveReachedIt) {
  Three t;
  t.peer_takes(2, facts_of(Step::kParallel));
  t.self.begin(facts_of(Step::kParallel));
  EXPECT_TRUE(t.self.in_progress());
  EXPECT_FALSE(t.self.complete());
  EXPECT_EQ(t.self.missing(), " 0");
  t.peer_takes(0, facts_of(Step::kParallel));
  EXPECT_TRUE(t.self.complete());
  EXPECT_EQ(t.self.missing(), "");
  t.self.end();
  EXPECT_FALSE(t.self.in_progress());
}

TEST(CurrentStep, DisagreementCompletesItAndIsExplained) {
  Three t;
  t.self.begin(facts_of(Step::kAllocate, 4096));
  t.peer_takes(2, facts_of(Step::kFinish));
  EXPECT_TRUE(t.self.complete()) << "cluster 0 is not waited for";
  EXPECT_TRUE(t.self.disagreement());
  EXPECT_THAT(t.self.explain(), HasSubstr("cluster 2 called finish()"));
}

TEST(CurrentStep, OneClusterHasNobodyToWaitFor) {
  CurrentStep step(ClusterId(0), 1);
  step.begin(facts_of(Step::kHello));
  EXPECT_EQ(step.unsent(), 0u);
  EXPECT_TRUE(step.complete());
}

TEST(CurrentStep, SixtyFourClustersFitAWord) {
  CurrentStep step(ClusterId(63), 64);
  step.begin(facts_of(Step::kHello));
  EXPECT_EQ(step.unsent(), ~std::uint64_t{0} >> 1);
}

TEST(CurrentStep, DisconnectionBeforeFinishIsALoss) {
  Three t;
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLost);
  t.self.allow_leaving();
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLost) << "it has not called finish()";
  EXPECT_FALSE(t.self.left(ClusterId(0)));
}

TEST(CurrentStep, DisconnectionOfOneThatFinishedWhileThisClusterDidNotIsALoss) {
  Three t;
  t.peer_takes(0, facts_of(Step::kFinish));
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLost);
}

TEST(CurrentStep, DisconnectionAfterFinishIsAFarewellAndIsNotWaitedFor) {
  Three t;
  t.self.allow_leaving();
  t.self.begin(facts_of(Step::kFinish));
  t.peer_takes(0, facts_of(Step::kFinish));
  t.peer_takes(2, facts_of(Step::kFinish));
  t.self.end();
  t.self.begin(facts_of(Step::kGoodbye));
  EXPECT_FALSE(t.self.complete());
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLeft);
  EXPECT_TRUE(t.self.left(ClusterId(0)));
  EXPECT_FALSE(t.self.left(ClusterId(2)));
  EXPECT_FALSE(t.self.complete());
  t.peer_takes(2, facts_of(Step::kGoodbye));
  EXPECT_TRUE(t.self.complete());
}

TEST(CurrentStep, AClusterThatHasLeftIsSentNoFurtherStep) {
  Three t;
  t.self.allow_leaving();
  t.self.begin(facts_of(Step::kFinish));
  t.peer_takes(0, facts_of(Step::kFinish));
  ASSERT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kLeft);
  t.self.end();
  t.self.begin(facts_of(Step::kGoodbye));
  EXPECT_EQ(t.self.unsent(), 0b100u);
}

TEST(CurrentStep, DisconnectionOfOneThatDisagreesIsLeftToTheExplanation) {
  Three t;
  t.self.begin(facts_of(Step::kAllocate, 4096));
  t.peer_takes(0, facts_of(Step::kAllocate, 8192));
  EXPECT_EQ(t.self.on_disconnected(ClusterId(0)), Loss::kDisagreed);
  EXPECT_FALSE(t.self.left(ClusterId(0)));
}

TEST(CurrentStep, MessagesOutOfTurnAreRefused) {
  Three t;
  t.self.begin(facts_of(Step::kHello));
  StepMessage two_ahead;
  two_ahead.sequence = 3;
  EXPECT_FALSE(t.self.on_message(ClusterId(0), bytes_of(two_ahead)));
}

}  // namespace
}  // namespace braid::dsm
