#include "sim/simulated_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsm/program/host.h"
#include "tests/sim/fake_shell.h"

namespace braid::sim {
namespace {

using testing::HasSubstr;
using Kind = Request::Kind;
using dsm::CallKind;

// A cycle is a nanosecond.
settings::CostModel model() {
  settings::CostModel m;
  m.cycles_per_second = 1e9;
  m.fault = 100;
  m.call = 50;
  m.lock = 20;
  m.barrier = 30;
  m.sync = 25;
  m.handler = 150;
  return m;
}

// One cluster of two nodes, with nobody to send to.
class Cluster : public testing::Test, protected Iccs::Sink, protected SimulatedCluster::Owner {
 protected:
  Cluster() { cluster_.resume_initial(Instant()); }

  Handled on_message(Instant now, ClusterId, ClusterId, ByteView) override { return {now}; }
  void on_room(Instant, ClusterId) override {}
  void on_delivered(const MessageReport&) override {}
  void on_lost(Instant, ClusterId, ClusterId, const char* why) override { ADD_FAILURE() << why; }
  void parallel_ended() override { ++parallel_ended_; }
  void reset_figures() override {}
  void on_collective_call(SimulatedCluster&, unsigned, const Request& request) override {
    called_.push_back(request.call.kind);
  }

  static MachineConfig config() {
    MachineConfig c;
    c.iccs.clusters = 1;
    c.iccs.mode = Mode::kNoDelay;
    c.compute = 2;
    c.heap_pages = 16;
    return c;
  }

  // The node asks when its clock shows `clock`, and the page protocol gets the request. Returns when.
  Instant ask(unsigned node, std::int64_t clock, const Request& request) {
    shell_.on_turn = [&](Control& control) {
      control.nodes[node].clock = clock;
      control.nodes[node].request = request;
      control.asking = node;
    };
    cluster_.run(clock + 1);
    const Event event = shared_.events.pop();
    EXPECT_EQ(event.kind, EventKind::kRequest);
    EXPECT_EQ(event.index, node);
    cluster_.on_request(node);
    return shared_.events.now();
  }
  void enter_parallel() {
    shared_.parallel.enter(shared_.events.now(), 2);
    cluster_.begin_barrier(shared_.events.now(), 2);
  }

  FakeShell shell_{2};
  MachineShared shared_{config(), model(), *this};
  Prng seeds_{1};
  SimulatedCluster cluster_{shared_, *this, ClusterId(0), shell_, seeds_};
  std::vector<CallKind> called_;
  unsigned parallel_ended_ = 0;
};

TEST_F(Cluster, RequestsReachThePageProtocolAnEntryLater) {
  EXPECT_EQ(ask(0, 1000, {.kind = Kind::kLock, .id = 3}), Instant::from_ns(1050));
  EXPECT_TRUE(shell_.node(0).runnable);
  EXPECT_EQ(shell_.node(0).clock, 1070) << "entry, and what a lock costs";
  EXPECT_EQ(cluster_.clock(), 1070);
}

TEST_F(Cluster, WaitingNodesDoNotRun) {
  enter_parallel();
  ask(0, 1000, {.kind = Kind::kLock, .id = 3});
  ask(1, 1200, {.kind = Kind::kLock, .id = 3});
  EXPECT_FALSE(shell_.node(1).runnable);
  EXPECT_THAT(cluster_.explain_waits(), HasSubstr("compute node 1 waits for lock 3"));
  ask(0, 2000, {.kind = Kind::kUnlock, .id = 3});
  EXPECT_TRUE(shell_.node(1).runnable);
  EXPECT_EQ(shell_.node(1).clock, 2070);
}

TEST_F(Cluster, MisuseOfALockEndsTheRun) {
  ask(0, 1000, {.kind = Kind::kUnlock, .id = 5});
  ASSERT_FALSE(shared_.failure.ok());
  EXPECT_EQ(shared_.failure.error().text, "compute node 0 unlocks lock 5, which it does not have");
}

TEST_F(Cluster, WaitingNodesHandleMessages) {
  enter_parallel();
  ask(0, 1000, {.kind = Kind::kBarrier, .id = 1});
  const std::int64_t clock = shell_.node(1).clock;
  const Iccs::Sink::Handled handled = cluster_.on_room(Instant::from_ns(2000));
  EXPECT_EQ(handled.compute_node, 0u);
  EXPECT_EQ(handled.until, Instant::from_ns(2000));
  EXPECT_EQ(shell_.node(1).clock, clock);
}

TEST_F(Cluster, ComputingNodesHandleMessagesInTurnWhenNoneWaits) {
  enter_parallel();
  const std::int64_t before = shell_.node(0).clock;
  EXPECT_EQ(cluster_.on_room(Instant::from_ns(2000)).compute_node, 0u);
  EXPECT_EQ(cluster_.on_room(Instant::from_ns(2000)).compute_node, 1u);
  EXPECT_EQ(shell_.node(0).clock, before + 150);
  EXPECT_EQ(shell_.node(1).clock, before + 150);
  // A node is busy with one after the other.
  EXPECT_EQ(cluster_.on_room(Instant::from_ns(2100)).until, Instant::from_ns(2150));
}

TEST_F(Cluster, FailureOfTheShellEndsTheRun) {
  shell_.end = "the program has ended";
  cluster_.run(100);
  ASSERT_FALSE(shared_.failure.ok());
  EXPECT_EQ(shared_.failure.error().text, "the program has ended");
}

TEST_F(Cluster, CallsOfAllClustersAreTheOwners) {
  ask(0, 1000, {.kind = Kind::kCollective, .call = {.kind = CallKind::kBarrier}});
  EXPECT_THAT(called_, testing::ElementsAre(CallKind::kBarrier));
  EXPECT_FALSE(shell_.node(0).runnable);
  EXPECT_THAT(cluster_.explain_waits(), HasSubstr("waits for the other clusters' initial threads"));
}

TEST_F(Cluster, BarrierOfTheInitialThreadsLeavesTheOtherNodesOutside) {
  cluster_.begin_barrier(Instant::from_ns(500), 1);
  EXPECT_TRUE(shell_.node(0).runnable);
  EXPECT_EQ(shell_.node(0).clock, 530);
  EXPECT_FALSE(shell_.node(1).runnable);
}

TEST_F(Cluster, InitialNodeContinuesWhenAllHaveLeftParallel) {
  enter_parallel();
  for (const unsigned node : {0u, 1u})
    ask(node, 1000 + node, {.kind = Kind::kBarrier, .id = dsm::kOwnBarrier.value()});
  EXPECT_EQ(parallel_ended_, 1u);
  EXPECT_FALSE(shared_.parallel.is_running());
  ask(0, 3000, {.kind = Kind::kIdle});
  EXPECT_EQ(cluster_.clock(), shell_.node(1).clock);
  const Instant last = ask(1, 4000, {.kind = Kind::kIdle});
  EXPECT_TRUE(shell_.node(0).runnable);
  EXPECT_EQ(shell_.node(0).clock, last.ns());
  EXPECT_FALSE(shell_.node(1).runnable);
}

TEST_F(Cluster, LoopsOfOneClusterInvolveNoOther) {
  ask(0, 1000, {.kind = Kind::kRunOnCluster});
  EXPECT_TRUE(called_.empty());
  EXPECT_TRUE(shell_.node(0).runnable);
  EXPECT_TRUE(shell_.node(1).runnable);
  EXPECT_EQ(shell_.node(0).clock, shell_.node(1).clock);
}

TEST_F(Cluster, AllocationsOfAllClustersAreHandedToTheInitialNode) {
  cluster_.allocate({.kind = Kind::kCollective, .pages = 2, .call = {.kind = CallKind::kAllocate}});
  cluster_.return_allocation(Instant::from_ns(100));
  EXPECT_EQ(shell_.node(0).result, 0u);
  cluster_.allocate({.kind = Kind::kCollective, .pages = 3, .call = {.kind = CallKind::kAllocate}});
  cluster_.return_allocation(Instant::from_ns(200));
  EXPECT_EQ(shell_.node(0).result, 2u);
  cluster_.allocate({.kind = Kind::kCollective, .pages = 12, .call = {.kind = CallKind::kAllocate}});
  cluster_.return_allocation(Instant::from_ns(300));
  EXPECT_EQ(shell_.node(0).result, dsm::kNoPages);
}

}  // namespace
}  // namespace braid::sim
