// The parts that serve a cluster, with the network in the same process: the combiner's operations and messages, the
// choice of the serving thread, and how compute nodes wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "dsm/live/combiner.h"
#include "dsm/live/node_waits.h"
#include "dsm/live/pollers.h"
#include "dsm/live/runtime_message.h"
#include "dsm/live/server_thread.h"
#include "dsm/program/failure.h"
#include "tests/dsm/array_memory.h"
#include "tests/dsm/live_machine.h"
#include "tests/dsm/queue_network.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kPages = 64;
constexpr LockId kLockOfCluster1{1};  // its number modulo the clusters

CollectiveCall call_of(CallKind kind) {
  CollectiveCall call;
  call.kind = kind;
  return call;
}

// One cluster's combiner and its parts, driven as the initial thread does.
struct Cluster {
  Cluster(std::uint16_t clusters, std::uint16_t self, std::uint16_t compute, QueueNetwork* net)
      : network(net),
        combiner({.clusters = clusters, .cluster = self, .compute = compute, .heap_pages = kPages}, memory,
                 net) {}
  bool serve() {
    const std::lock_guard hold(combiner);
    return combiner.serve(0);
  }
  void check_links() {
    const std::lock_guard hold(combiner);
    combiner.check_links();
  }
  bool lock(std::uint16_t node, LockId id) {
    return combiner.start(node, [&] { return combiner.engine().lock(node, id); });
  }
  void unlock(std::uint16_t node, LockId id) {
    combiner.perform(node, [&] { combiner.engine().unlock(node, id); });
  }
  bool fault(std::uint16_t node, PageId page) {
    return combiner.start(node, [&] { return combiner.engine().fault(node, page, Access::kRead); });
  }
  bool done(unsigned node) { return combiner.completion(node).done(); }

  ArrayMemory memory{kPages};
  QueueNetwork* network;
  Combiner combiner;
};

struct Joined {
  explicit Joined(std::uint16_t clusters, std::uint16_t compute = 1) : ends(QueueNetwork::join(clusters)) {
    for (std::uint16_t k = 0; k < clusters; ++k)
      all.push_back(std::make_unique<Cluster>(clusters, k, compute, ends[k].get()));
  }
  Cluster& operator[](std::size_t k) { return *all[k]; }
  std::vector<std::unique_ptr<QueueNetwork>> ends;
  std::vector<std::unique_ptr<Cluster>> all;
};

// --- Messages between runtimes

TEST(RuntimeMessage, HeaderNamesThePayload) {
  std::vector<std::byte> room(kMessageHeaderBytes + 3, std::byte{0xee});
  const MutableBytes body = begin_message(room, Payload::kCollectiveCall);
  EXPECT_EQ(body.size(), 3u);
  const OpenedMessage opened = open_message(room);
  EXPECT_EQ(opened.payload, Payload::kCollectiveCall);
  EXPECT_EQ(opened.body.data(), body.data());
  EXPECT_EQ(opened.body.size(), 3u);
  for (std::size_t i = 1; i < kMessageHeaderBytes; ++i) EXPECT_EQ(room[i], std::byte{0});
}

TEST(RuntimeMessage, MessageWithoutABodyOrOfAnUnknownKindIsRefused) {
  const std::vector<std::byte> header(kMessageHeaderBytes, std::byte{1});
  EXPECT_EQ(open_message(header).payload, Payload::kNone);
  EXPECT_EQ(open_message({}).payload, Payload::kNone);
  std::vector<std::byte> message(kMessageHeaderBytes + 1);
  for (const int kind : {0, 3, 255}) {
    message[0] = static_cast<std::byte>(kind);
    EXPECT_EQ(open_message(message).payload, Payload::kNone) << kind;
  }
}

// --- Combiner

TEST(Combiner, OperationWithinTheClusterIsCompleteAtOnce) {
  Cluster alone(1, 0, 2, nullptr);
  EXPECT_TRUE(alone.lock(0, LockId(7)));
  EXPECT_FALSE(alone.lock(1, LockId(7))) << "a sibling has it";
  EXPECT_FALSE(alone.done(1));
  alone.unlock(0, LockId(7));
  EXPECT_TRUE(alone.done(1)) << "the unlock completes the sibling's call";
}

TEST(Combiner, TheLastNodeAtABarrierCompletesItsSiblings) {
  Cluster alone(1, 0, 3, nullptr);
  const auto arrive = [&](std::uint16_t node) {
    return alone.combiner.start(node, [&] { return alone.combiner.engine().barrier(node, BarrierId(0)); });
  };
  EXPECT_FALSE(arrive(0));
  EXPECT_FALSE(arrive(2));
  EXPECT_FALSE(alone.done(0));
  EXPECT_TRUE(arrive(1));
  EXPECT_TRUE(alone.done(0));
  EXPECT_TRUE(alone.done(2));
}

TEST(Combiner, RemoteOperationIsCompleteWhenItsReplyIsHandled) {
  Joined c(2);
  EXPECT_FALSE(c[0].lock(0, kLockOfCluster1));
  EXPECT_FALSE(c[0].serve()) << "nothing has arrived";
  EXPECT_TRUE(c[1].combiner.work_is_there());
  EXPECT_TRUE(c[1].serve());
  EXPECT_FALSE(c[1].combiner.work_is_there());
  EXPECT_FALSE(c[0].done(0));
  EXPECT_TRUE(c[0].serve());
  EXPECT_TRUE(c[0].done(0));
}

TEST(Combiner, OutputWithoutRoomIsPendingUntilItIsSent) {
  Joined c(2);
  c.ends[0]->has_room = false;
  EXPECT_FALSE(c[0].lock(0, kLockOfCluster1));
  EXPECT_TRUE(c[0].combiner.work_is_there()) << "no bell will ring for it";
  EXPECT_FALSE(c[0].serve());
  EXPECT_TRUE(c[0].combiner.work_is_there());
  c.ends[0]->has_room = true;
  EXPECT_FALSE(c[0].serve()) << "nothing has arrived, but the request leaves";
  EXPECT_FALSE(c[0].combiner.work_is_there());
  EXPECT_TRUE(c[1].serve());
  EXPECT_TRUE(c[0].serve());
  EXPECT_TRUE(c[0].done(0));
}

TEST(Combiner, HandlesAtMostOneBatchPerHoldOfTheLock) {
  Joined c(2, 17);
  // Of cluster 1's pages, one request from each node.
  for (std::uint16_t node = 0; node < 17; ++node) (void)c[0].fault(node, PageId(2u * node + 1));
  const std::size_t requests = c.ends[0]->sent.size();
  ASSERT_EQ(requests, 17u);
  EXPECT_TRUE(c[1].serve());
  EXPECT_TRUE(c[1].combiner.work_is_there()) << "a sibling may want the lock in between";
  EXPECT_TRUE(c[1].serve());
  EXPECT_FALSE(c[1].combiner.work_is_there());
}

TEST(Combiner, CollectiveCallIsSentBeforeTheEnginesMessages) {
  Joined c(2);
  c.ends[0]->has_room = false;
  EXPECT_FALSE(c[0].combiner.start_call(0, call_of(CallKind::kParallel)));
  (void)c[0].combiner.start(0, [&] { return c[0].combiner.engine().barrier(0, BarrierId(1)); });
  c.ends[0]->has_room = true;
  (void)c[0].serve();
  ASSERT_EQ(c.ends[0]->sent.size(), 2u);
  EXPECT_EQ(open_message(c.ends[0]->sent[0].second).payload, Payload::kCollectiveCall);
  EXPECT_EQ(open_message(c.ends[0]->sent[1].second).payload, Payload::kEngine);
}

TEST(Combiner, CollectiveCallIsCompleteWhenAllOthersHaveMadeIt) {
  Joined c(3);
  EXPECT_FALSE(c[0].combiner.start_call(0, call_of(CallKind::kParallel)));
  EXPECT_FALSE(c[2].combiner.start_call(0, call_of(CallKind::kParallel)));
  (void)c[0].serve();
  EXPECT_FALSE(c[0].done(0));
  EXPECT_FALSE(c[1].combiner.start_call(0, call_of(CallKind::kParallel)))
      << "what has arrived is not served yet";
  (void)c[1].serve();
  EXPECT_TRUE(c[1].done(0));
  (void)c[0].serve();
  EXPECT_TRUE(c[0].done(0));
}

TEST(Combiner, CollectiveCallIsOfAnyComputeNodeWhileNodeZeroWaits) {
  Joined c(2, 2);
  EXPECT_FALSE(c[0].fault(0, PageId(1)));
  EXPECT_FALSE(c[0].combiner.start_call(1, call_of(CallKind::kFinish)));
  EXPECT_TRUE(c[0].combiner.calls_together(1));
  EXPECT_FALSE(c[0].combiner.calls_together(0));
  EXPECT_FALSE(c[1].combiner.start_call(0, call_of(CallKind::kFinish)));
  (void)c[0].serve();
  EXPECT_TRUE(c[0].done(1));
  EXPECT_FALSE(c[0].done(0)) << "the page has not come";
  c[0].combiner.call().end();
  (void)c[1].serve();
  (void)c[0].serve();
  EXPECT_TRUE(c[0].done(0));
}

TEST(Combiner, StampsATracedFaultWhenItIsAnsweredAndInstalled) {
  Joined c(2);
  c[0].combiner.trace(true);
  const Instant before = monotonic_now();
  EXPECT_FALSE(c[0].fault(0, PageId(1)));
  EXPECT_TRUE(c[1].serve());
  EXPECT_TRUE(c[0].serve());
  const FaultStamps stamps = c[0].combiner.stamps(0);
  EXPECT_GE(stamps.answered, before);
  EXPECT_GE(stamps.installed, stamps.answered);
  EXPECT_EQ(c[0].memory.access(1), Access::kRead);
}

void expect_failure(const std::function<void()>& program, const std::string& text) {
  const Ending ending = in_a_process([&] {
    program();
    return 0;
  });
  EXPECT_EQ(ending.exit_status, kFailureStatus) << "signal " << ending.signal << ": " << ending.text;
  EXPECT_THAT(ending.text, HasSubstr(text));
}

// PG-27
TEST(Combiner, InvalidMessageEndsTheProcess) {
  const std::string cure =
      "A message was damaged, lost or duplicated in flight, so the program cannot continue";
  expect_failure(
      [] {
        Joined c(2);
        c.ends[0]->arrive(1, std::vector<std::byte>(20, std::byte{9}));
        (void)c[0].serve();
      },
      "cluster 0: cluster 1 sent bytes that are not a message of a runtime (0, number 0, 20 bytes), which is "
      "refused: they have another form, or announce a collective call that cannot be next. " +
          cure);
  expect_failure(
      [] {
        Joined c(2);
        std::vector<std::byte> message(kMessageHeaderBytes + 12);
        begin_message(message, Payload::kEngine)[0] = std::byte{99};
        c.ends[0]->arrive(1, message);
        (void)c[0].serve();
      },
      "cluster 0: cluster 1 sent bytes that are not a message (0, number 0, 12 bytes)");
}

TEST(Combiner, LostClusterEndsTheProcessAtTheNextCheckOfTheLinks) {
  const std::string text = "cluster 0: lost cluster 1: the cable is cut";
  expect_failure(
      [] {
        Joined c(2);
        c.ends[0]->broken = "the cable is cut";
        c[0].check_links();
      },
      text);
  expect_failure(
      [] {
        Joined c(2);
        c.ends[0]->broken = "the cable is cut";
        for (int i = 0; i < 64; ++i) (void)c[0].serve();  // nothing arrives, so the links are looked at
      },
      text);
}

TEST(Combiner, LinksAreNotCheckedWhileEveryServeFindsWork) {
  Joined c(2);
  (void)c[0].combiner.start_call(0, call_of(CallKind::kParallel));
  c.ends[1]->broken = "the cable is cut";
  EXPECT_TRUE(c[1].serve());
}

TEST(Combiner, ClusterThatHasFinishedMayLeaveAndIsNotAwaited) {
  Joined c(2);
  for (int k = 0; k < 2; ++k) {
    const std::lock_guard hold(c[k].combiner);
    c[k].combiner.call().allow_leaving();
  }
  (void)c[0].combiner.start_call(0, call_of(CallKind::kFinish));
  (void)c[1].combiner.start_call(0, call_of(CallKind::kFinish));
  ASSERT_TRUE(c[0].serve());
  ASSERT_TRUE(c[0].done(0));
  {
    const std::lock_guard hold(c[0].combiner);
    c[0].combiner.call().end();
  }
  EXPECT_FALSE(c[0].combiner.start_call(0, call_of(CallKind::kLeave)));
  c.ends[0]->broken = "its socket was closed";
  c[0].check_links();
  EXPECT_TRUE(c[0].done(0));
  // Messages for a lost cluster stay queued, and do not count as work.
  c.ends[0]->sent.clear();
  (void)c[0].lock(0, kLockOfCluster1);
  EXPECT_TRUE(c.ends[0]->sent.empty());
  EXPECT_FALSE(c[0].combiner.work_is_there());
}

TEST(Combiner, FinishThatArrivedBeforeTheDisconnectionIsHandled) {
  Joined c(2);
  {
    const std::lock_guard hold(c[0].combiner);
    c[0].combiner.call().allow_leaving();
  }
  (void)c[0].combiner.start_call(0, call_of(CallKind::kFinish));
  (void)c[1].combiner.start_call(0, call_of(CallKind::kFinish));
  c.ends[0]->broken = "its socket was closed";
  c[0].check_links();  // takes what has arrived first
  EXPECT_TRUE(c[0].done(0));
}

// --- Pollers

TEST(Pollers, FirstPollerDisarmsTheBellAndLastArmsIt) {
  Joined c(2);
  Pollers pollers(c.ends[0].get(), c[0].combiner);
  EXPECT_TRUE(pollers.nobody());
  pollers.enter();
  pollers.enter();
  EXPECT_FALSE(pollers.nobody());
  EXPECT_EQ(c.ends[0]->disarms, 1);
  pollers.leave();
  EXPECT_EQ(c.ends[0]->arms, 0);
  pollers.leave();
  EXPECT_EQ(c.ends[0]->arms, 1);
  EXPECT_EQ(c.ends[0]->wakes, 0);
  EXPECT_TRUE(pollers.nobody());
}

TEST(Pollers, LastPollerWakesTheServerIfWorkIsPending) {
  Joined c(2);
  Pollers pollers(c.ends[0].get(), c[0].combiner);
  pollers.enter();
  c.ends[0]->arrive(1, {});
  pollers.leave();
  EXPECT_EQ(c.ends[0]->wakes, 1);

  // Output that waits for room is work too.
  Joined d(2);
  Pollers others(d.ends[0].get(), d[0].combiner);
  others.enter();
  d.ends[0]->has_room = false;
  (void)d[0].lock(0, kLockOfCluster1);
  others.leave();
  EXPECT_EQ(d.ends[0]->wakes, 1);
}

TEST(Pollers, ServerSleepsOnlyIfNoWorkIsPending) {
  Joined c(2);
  Pollers pollers(c.ends[0].get(), c[0].combiner);
  EXPECT_TRUE(pollers.prepare_sleep(true)) << "nobody polls, nothing is there";
  EXPECT_EQ(c.ends[0]->arms, 1);
  pollers.enter();
  EXPECT_TRUE(pollers.prepare_sleep(false)) << "somebody polls, who will wake it";
  EXPECT_EQ(c.ends[0]->disarms, 2);
  pollers.leave();
  EXPECT_FALSE(pollers.prepare_sleep(false)) << "the poller left before the bell was disarmed";
  c.ends[0]->arrive(1, {});
  EXPECT_FALSE(pollers.prepare_sleep(true)) << "it arrived before the bell was armed";
  pollers.enter();
  EXPECT_TRUE(pollers.prepare_sleep(true)) << "somebody who polls takes it";
}

TEST(Pollers, SingleClusterUsesNoBell) {
  Cluster alone(1, 0, 1, nullptr);
  Pollers pollers(nullptr, alone.combiner);
  pollers.enter();
  pollers.leave();
  EXPECT_TRUE(pollers.nobody());
}

// --- The server thread

TEST(ServerThread, ServesArrivalsWhileNoNodePolls) {
  Joined c(2);
  c.ends[1]->sleeps_without_timeout = true;
  Pollers pollers(c.ends[1].get(), c[1].combiner);
  const ServerThread server(*c.ends[1], c[1].combiner, pollers);
  const Instant give_up = monotonic_now() + 20_s;
  for (int i = 0; i < 200; ++i) {
    (void)c[0].lock(0, kLockOfCluster1);
    while (!c[0].done(0) && monotonic_now() < give_up) (void)c[0].serve();
    ASSERT_TRUE(c[0].done(0)) << "the bell did not wake the server";
    c[0].unlock(0, kLockOfCluster1);
    // Another cluster's call brings the token back, so that the next one is remote again.
    (void)c[1].lock(0, kLockOfCluster1);
    while (!c[1].done(0) && monotonic_now() < give_up) (void)c[0].serve();
    ASSERT_TRUE(c[1].done(0));
    c[1].unlock(0, kLockOfCluster1);
  }
}

TEST(ServerThread, NoWakeUpIsLostWhilePollersComeAndGo) {
  Joined c(2, 2);
  c.ends[1]->sleeps_without_timeout = true;
  Pollers pollers(c.ends[1].get(), c[1].combiner);
  std::atomic<bool> stop{false};
  // A poller that serves nothing: the server must handle messages that arrive while it polls.
  std::thread visitor([&] {
    while (!stop) {
      pollers.enter();
      std::this_thread::yield();
      pollers.leave();
      std::this_thread::yield();
    }
  });
  {
    const ServerThread server(*c.ends[1], c[1].combiner, pollers);
    const Instant give_up = monotonic_now() + 20_s;
    for (std::uint32_t i = 0; i < 2000; ++i) {
      const SyncCall add{.op = SyncOp::kWordAdd, .id = 1, .first = 1};
      const bool complete = c[0].combiner.start(0, [&] { return c[0].combiner.engine().sync(0, add); });
      while (!complete && !c[0].done(0) && monotonic_now() < give_up) {
        if (!c[0].serve()) std::this_thread::yield();
      }
      if (!complete && !c[0].done(0)) {
        ADD_FAILURE() << "call " << i << " was never answered";
        break;
      }
    }
    stop = true;
    visitor.join();
  }
}

TEST(ServerThread, PollsWhereThereIsNoBell) {
  Joined c(2);
  c.ends[1]->only_moves_in_poll = true;
  Pollers pollers(c.ends[1].get(), c[1].combiner);
  const ServerThread server(*c.ends[1], c[1].combiner, pollers);
  (void)c[0].lock(0, kLockOfCluster1);
  const Instant give_up = monotonic_now() + 20_s;
  while (!c[0].done(0) && monotonic_now() < give_up) (void)c[0].serve();
  EXPECT_TRUE(c[0].done(0));
}

TEST(ServerThread, DetectsALostClusterWhileIdle) {
  const Instant before = monotonic_now();
  expect_failure(
      [] {
        Joined c(2);
        c.ends[1]->broken = "the cable is cut";
        Pollers pollers(c.ends[1].get(), c[1].combiner);
        const ServerThread server(*c.ends[1], c[1].combiner, pollers);
        for (;;) ::usleep(1000);
      },
      "cluster 1: lost cluster 0: the cable is cut");
  EXPECT_LT(monotonic_now() - before, 5_s);
}

// --- How compute nodes wait

TEST(NodeWaits, WaitingNodeServesUntilItsOperationIsComplete) {
  Joined c(2);
  PulseWriter pulse;
  Pollers pollers(c.ends[0].get(), c[0].combiner);
  NodeWaits waits(1, c.ends[0].get(), c[0].combiner, pollers, pulse);
  Pollers of_peer(c.ends[1].get(), c[1].combiner);
  const ServerThread server(*c.ends[1], c[1].combiner, of_peer);
  ASSERT_FALSE(c[0].lock(0, kLockOfCluster1));
  waits.wait(0);
  EXPECT_TRUE(c[0].done(0));
  EXPECT_TRUE(pollers.nobody());
}

TEST(NodeWaits, WaitEndsAtItsDeadline) {
  Joined c(2);
  PulseWriter pulse;
  Pollers pollers(c.ends[0].get(), c[0].combiner);
  NodeWaits waits(1, c.ends[0].get(), c[0].combiner, pollers, pulse);
  ASSERT_FALSE(c[0].lock(0, kLockOfCluster1));
  const Instant before = monotonic_now();
  waits.wait(0, before + 20_ms);
  EXPECT_FALSE(c[0].done(0));
  EXPECT_GE(monotonic_now() - before, 20_ms);
  EXPECT_LT(monotonic_now() - before, 10_s);
  EXPECT_TRUE(pollers.nobody());
}

TEST(NodeWaits, SleepingNodeIsWokenByTheServerThread) {
  Joined c(2, 2);
  PulseWriter pulse;
  Pollers pollers(c.ends[0].get(), c[0].combiner);
  NodeWaits waits(2, c.ends[0].get(), c[0].combiner, pollers, pulse);
  const ServerThread server(*c.ends[0], c[0].combiner, pollers);
  ASSERT_FALSE(c[0].lock(1, kLockOfCluster1));
  std::thread node([&] { waits.wait(1); });
  // Longer than a node polls, and until it has parked, and the server has armed the bell.
  ::usleep(20'000);
  const Instant limit = monotonic_now() + 30_s;
  while (!pollers.nobody() && monotonic_now() < limit) ::usleep(1'000);
  EXPECT_TRUE(pollers.nobody());
  (void)c[1].serve();
  node.join();
  EXPECT_TRUE(c[0].done(1));
}

TEST(NodeWaits, SiblingsOfOneClusterWakeEachOther) {
  Cluster alone(1, 0, 2, nullptr);
  PulseWriter pulse;
  Pollers pollers(nullptr, alone.combiner);
  NodeWaits waits(2, nullptr, alone.combiner, pollers, pulse);
  for (int round = 0; round < 3; ++round) {
    const BarrierId barrier(0);
    std::thread sibling([&] {
      if (!alone.combiner.start(1, [&] { return alone.combiner.engine().barrier(1, barrier); }))
        waits.wait(1);
    });
    ::usleep(round == 0 ? 20'000 : 0);  // it has parked; it has not
    if (!alone.combiner.start(0, [&] { return alone.combiner.engine().barrier(0, barrier); })) waits.wait(0);
    sibling.join();
  }
}

TEST(NodeWaits, WaitIsNotCountedAsComputingAndItsEndIsProgress) {
  Cluster alone(1, 0, 2, nullptr);
  PulseWriter pulse;
  Pollers pollers(nullptr, alone.combiner);
  NodeWaits waits(2, nullptr, alone.combiner, pollers, pulse);
  ASSERT_TRUE(alone.lock(0, LockId(1)));
  ASSERT_FALSE(alone.lock(1, LockId(1)));
  const PulseWriter::Computing computing(pulse);
  std::thread sibling([&] {
    const PulseWriter::Computing also_computing(pulse);
    waits.wait(1);
  });
  while (pulse.read().busy != 1) std::this_thread::yield();  // the sibling waits: 1 is this thread
  EXPECT_EQ(pulse.read().progress, 0u);
  alone.unlock(0, LockId(1));
  sibling.join();
  EXPECT_EQ(pulse.read().progress, 1u);
}

}  // namespace
}  // namespace braid::dsm
