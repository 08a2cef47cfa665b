#include "sim/compute_node.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid::sim {
namespace {

using Kind = Request::Kind;
using State = ComputeNode::State;

constexpr Instant at(std::int64_t us) {
  return Instant::from_ns(us * 1000);
}

// A node that runs since the beginning, in a machine of one node and a clock of one cycle in a nanosecond.
struct Fixture {
  Fixture() { (void)node.resume(at(0), parallel, rate); }
  // Asks at `from` and goes on at `until`.
  ComputeNode::Resumption wait_for(Kind kind, Instant from, Instant until, Duration cost = {}) {
    (void)node.ask(kind, from, Duration());
    node.wait(cost);
    return node.resume(until, parallel, rate);
  }
  const ClockRate rate{1'000'000'000};
  ParallelTime parallel;
  ComputeNode node{1};
};

TEST(ComputeNode, GoesThroughItsStates) {
  Fixture f;
  EXPECT_EQ(f.node.state(), State::kRunning);
  (void)f.node.ask(Kind::kLock, at(5), Duration());
  EXPECT_EQ(f.node.state(), State::kAsking);
  f.node.wait(Duration());
  EXPECT_EQ(f.node.state(), State::kWaiting);
  (void)f.node.resume(at(9), f.parallel, f.rate);
  EXPECT_EQ(f.node.state(), State::kRunning);
  (void)f.node.ask(Kind::kCollective, at(10), Duration());
  f.node.await_call();
  EXPECT_EQ(f.node.state(), State::kInCall);
  (void)f.node.resume(at(12), f.parallel, f.rate);
  (void)f.node.ask(Kind::kIdle, at(13), Duration());
  f.node.step_outside();
  EXPECT_EQ(f.node.state(), State::kOutside);
}

TEST(ComputeNode, WaitsAreCountedByTheirKindInsideParallel) {
  Fixture f;
  f.wait_for(Kind::kFault, at(1), at(5));
  EXPECT_EQ(f.node.figures().faults, Duration()) << "parallel() has not begun";
  f.parallel.enter(at(10), 1);
  f.wait_for(Kind::kFault, at(11), at(12));
  f.wait_for(Kind::kLock, at(20), at(22));
  f.wait_for(Kind::kUnlock, at(23), at(24));
  f.wait_for(Kind::kBarrier, at(30), at(34));
  f.wait_for(Kind::kSync, at(40), at(45));
  f.wait_for(Kind::kAllocate, at(50), at(56));
  EXPECT_EQ(f.node.figures().faults, 1_us);
  EXPECT_EQ(f.node.figures().locks, 3_us);
  EXPECT_EQ(f.node.figures().barriers, 4_us);
  EXPECT_EQ(f.node.figures().syncs, 11_us);
}

TEST(ComputeNode, WaitThatBeganBeforeParallelCountsFromItsBeginning) {
  Fixture f;
  (void)f.node.ask(Kind::kFault, at(1), Duration());
  f.node.wait(Duration());
  f.parallel.enter(at(10), 1);
  (void)f.node.resume(at(12), f.parallel, f.rate);
  EXPECT_EQ(f.node.figures().faults, 2_us);
}

TEST(ComputeNode, CollectiveCallsAndTimeOutsideAreNotCountedAsWaits) {
  Fixture f;
  f.parallel.enter(at(0), 1);
  (void)f.node.ask(Kind::kCollective, at(1), Duration());
  f.node.await_call();
  (void)f.node.resume(at(5), f.parallel, f.rate);
  (void)f.node.ask(Kind::kIdle, at(6), Duration());
  f.node.step_outside();
  (void)f.node.resume(at(9), f.parallel, f.rate);
  EXPECT_EQ(f.node.figures().syncs, Duration());
}

TEST(ComputeNode, CostOfContinuingIsChargedOnce) {
  Fixture f;
  EXPECT_EQ(f.wait_for(Kind::kFault, at(1), at(5), 3_us).at, at(8));
  EXPECT_EQ(f.wait_for(Kind::kFault, at(11), at(15)).at, at(15));
}

TEST(ComputeNode, ContinuesWhenItsMessagesAreHandled) {
  Fixture f;
  (void)f.node.ask(Kind::kLock, at(1), Duration());
  f.node.wait(Duration());
  f.node.handled(4_us, at(9), f.parallel);
  EXPECT_EQ(f.node.resume(at(5), f.parallel, f.rate).at, at(9));
}

TEST(ComputeNode, MessagesDelayComputingNodesButNotWaitingOnes) {
  Fixture f;
  f.parallel.enter(at(0), 1);
  f.node.handled(2_us, at(3), f.parallel);
  EXPECT_EQ(f.node.figures().handling, 2_us);
  EXPECT_EQ(f.node.figures().held_up, 2_us);
  (void)f.node.ask(Kind::kLock, at(4), Duration());
  f.node.wait(Duration());
  f.node.handled(5_us, at(10), f.parallel);
  EXPECT_EQ(f.node.figures().handling, 7_us);
  EXPECT_EQ(f.node.figures().held_up, 2_us);
  EXPECT_EQ(f.node.busy_until(), at(10));
}

TEST(ComputeNode, OnlyAFaultGrantsAnAccess) {
  Fixture f;
  EXPECT_EQ(f.node.granted_at(), ClockRate::kNever);
  f.wait_for(Kind::kFault, at(1), at(5));
  EXPECT_EQ(f.node.granted_at(), 5'000);
  f.node.delay_grant(6'000);
  EXPECT_EQ(f.node.granted_at(), 6'000);
  f.wait_for(Kind::kLock, at(7), at(8));
  EXPECT_EQ(f.node.granted_at(), ClockRate::kNever);
}

TEST(ComputeNode, LeavesParallelOnceAndWaitsForTheLast) {
  Fixture f;
  f.parallel.enter(at(0), 2);
  (void)f.node.ask(Kind::kBarrier, at(1), Duration());
  f.node.leave_when_resumed();
  f.node.wait(Duration());
  EXPECT_TRUE(f.node.resume(at(3), f.parallel, f.rate).has_left);
  f.node.wait_for_last(at(10), f.parallel);
  EXPECT_EQ(f.node.figures().barriers, 9_us);
  EXPECT_FALSE(f.wait_for(Kind::kBarrier, at(11), at(12)).has_left);
}

TEST(ComputeNode, BarrierOfTheClusterCountsFromItsBeginning) {
  Fixture f;
  f.parallel.enter(at(10), 1);
  f.node.wait_at_barrier(at(10));
  EXPECT_EQ(f.node.state(), State::kWaiting);
  (void)f.node.resume(at(14), f.parallel, f.rate);
  EXPECT_EQ(f.node.figures().barriers, 4_us);
}

TEST(ComputeNode, JitterIsDrawnFromItsSeedUpToTheMost) {
  const auto draws = [](std::uint64_t seed, Duration most) {
    Fixture f;
    f.node = ComputeNode(seed);
    std::vector<std::int64_t> all;
    for (int i = 0; i < 100; ++i) {
      (void)f.node.resume(at(0), f.parallel, f.rate);
      all.push_back(f.node.ask(Kind::kSync, at(0), most).ns());
    }
    return all;
  };
  EXPECT_EQ(draws(1, 50_us), draws(1, 50_us));
  EXPECT_NE(draws(1, 50_us), draws(2, 50_us));
  for (const std::int64_t drawn : draws(3, Duration::ns(2))) EXPECT_LE(drawn, 2);
  for (const std::int64_t drawn : draws(4, Duration())) EXPECT_EQ(drawn, 0);
}

}  // namespace
}  // namespace braid::sim
