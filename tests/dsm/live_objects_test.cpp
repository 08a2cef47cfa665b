// Locks, conditions, flags, semaphores and barriers at addresses, and tries, on whole machines: a process for each cluster,
// connected by sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/prng.h"
#include "dsm/api.h"
#include "dsm/program/failure.h"
#include "dsm/program/globals.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/object_ids.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

class Objects : public testing::TestWithParam<LiveMachine> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, Objects,
    testing::Values(LiveMachine{.clusters = 1, .compute = 3}, LiveMachine{.clusters = 2, .compute = 2},
                    LiveMachine{.clusters = 3, .compute = 2, .order = Order::kShuffled},
                    LiveMachine{.clusters = 4,
                                .compute = 1,
                                .adjust = [](Environment& e) { e.protocol = Protocol::kLazy; }}),
    [](const auto& shape) { return shape_of(shape.param); });

TEST(LocksOfTheRuntime, AreNamedByWhatTheyAreFor) {
  EXPECT_EQ(name_of_lock(kOwnLock), "the runtime's lock of the memory of shared_malloc()");
  EXPECT_EQ(own_locks(LockId(4000)), nullptr);
  name_own_locks({.first = 4000, .count = 2, .what = "this test", .cure = "end it"});
  EXPECT_EQ(name_of_lock(LockId(3999)), "lock 3999");
  EXPECT_EQ(name_of_lock(LockId(4000)), "the runtime's lock of this test");
  EXPECT_STREQ(own_locks(LockId(4001))->cure, "end it");
  EXPECT_EQ(name_of_lock(LockId(4002)), "lock 4002");
}

// Four pages of globals in a heap of ten.
TEST(ObjectsInGlobals, HavePlacesBehindThoseOfTheHeap) {
  constexpr std::uint32_t kPages = 10, kNumbered = 3;
  const std::uintptr_t globals = 0x10000;
  const GlobalsWindow before = globals_window();
  set_globals_window({globals, 4});
  const std::uint32_t a_page = addresses_per_page(page_length());
  const auto id = [&](std::uintptr_t address) {
    const auto* const at = reinterpret_cast<const void*>(address);  // NOLINT
    EXPECT_TRUE(can_name_object(at));
    return object_id("f()", at, kNumbered, kPages);
  };
  EXPECT_EQ(id(kHeapAddress), kNumbered);
  EXPECT_EQ(id(kHeapAddress + 6 * page_length().bytes() - 4), kNumbered + 6 * a_page - 1);
  EXPECT_EQ(id(globals), kNumbered + 6 * a_page);
  EXPECT_EQ(id(globals + 4 * page_length().bytes() - 4), kNumbered + addresses_of(kPages, page_length()) - 1);
  const auto can = [](std::uintptr_t address) {
    return can_name_object(reinterpret_cast<const void*>(address));  // NOLINT
  };
  EXPECT_FALSE(can(globals + 2));
  EXPECT_FALSE(can(globals - 4));
  EXPECT_FALSE(can(globals + 4 * page_length().bytes()));
  EXPECT_FALSE(can(kHeapAddress - 4));
  EXPECT_FALSE(can(reinterpret_cast<std::uintptr_t>(&before))) << "a private stack";
  set_globals_window(before);
}

TEST_P(Objects, EachCellHasALock) {
  expect_runs(GetParam(), [] {
    struct Cell {
      unsigned count;
      unsigned lock;  // only its address counts
    };
    constexpr unsigned kCells = 3000, kEach = 300;
    auto* const cells = allocate<Cell>(kCells);
    unsigned sum = 0, nodes = 0, touched = 0;
    parallel([&](Node& node) {
      Prng random(node.id() + 1);
      for (unsigned i = 0; i < kEach; ++i) {
        // Two at once, in the order of their addresses; half of the work is on few cells.
        const auto a = random.below(i % 2 == 0 ? 4 : kCells);
        const auto b = a + 1 + random.below(3);
        const LockGuardAt first(node, &cells[a].lock);
        ++cells[a].count;
        if (b >= kCells) continue;
        const LockGuardAt second(node, &cells[b].lock);
        ++cells[b].count;
        ++cells[a].count;
      }
      node.barrier();
      if (node.local() != 0) return;
      nodes = node.count();
      for (unsigned i = 0; i < kCells; ++i) {
        sum += cells[i].count;
        touched += cells[i].lock;
      }
    });
    return finish(sum > nodes * kEach * 5 / 2 && touched == 0 ? 0 : 1);
  });
}

TEST_P(Objects, ManyLocksAreHeldAtOnce) {
  expect_runs(GetParam(), [] {
    constexpr unsigned kMany = 4'000;  // each is handed on from cluster to cluster at every turn
    auto* const memory = allocate<unsigned>(kMany);
    unsigned rounds = 0;
    parallel([&](Node& node) {
      for (unsigned turn = 0; turn < node.count(); ++turn) {
        if (turn == node.id()) {
          for (unsigned i = 0; i < kMany; ++i) node.lock_at(&memory[i]);
          ++memory[0];
          for (unsigned i = 0; i < kMany; ++i) node.unlock_at(&memory[i]);
        }
        node.barrier();
      }
      if (node.local() == 0) rounds = memory[0] - node.count();
    });
    return finish(rounds == 0 ? 0 : 1);
  });
}

TEST_P(Objects, TurnsAreTakenWithConditions) {
  expect_runs(GetParam(), [] {
    struct Turn {
      unsigned next;
      unsigned lock, condition;
    };
    auto* const turn = allocate<Turn>(1);
    constexpr unsigned kRounds = 20;
    unsigned last = 0;
    parallel([&](Node& node) {
      for (unsigned round = 0; round < kRounds; ++round) {
        const LockGuardAt guard(node, &turn->lock);
        while (turn->next % node.count() != node.id()) node.condition_wait_at(&turn->condition, &turn->lock);
        ++turn->next;
        if (round % 2 == 0 || node.count() > 2)
          node.condition_broadcast_at(&turn->condition);
        else
          node.condition_signal_at(&turn->condition);
      }
      node.barrier();
      if (node.local() == 0) last = turn->next - kRounds * node.count();
    });
    return finish(last == 0 ? 0 : 1);
  });
}

TEST_P(Objects, BarriersOfSomeNodesAndOfAll) {
  expect_runs(GetParam(), [] {
    constexpr unsigned kRounds = 25;
    auto* const counts = allocate<unsigned>(3 * 2048);  // in different pages
    std::atomic<unsigned> wrong = 0;
    parallel([&](Node& node) {
      // Nodes of even and of odd numbers have a barrier each, at neighbouring addresses, and all share a third one.
      const unsigned half = node.id() % 2;
      const unsigned others = (node.count() + 1 - half) / 2;
      unsigned* const own = &counts[half * 2048];
      for (unsigned round = 1; round <= kRounds; ++round) {
        if (node.id() == half) ++*own;
        node.barrier_at(&counts[half], others);
        wrong += *own != round;
        node.barrier_at(&counts[half], others);
      }
      node.barrier_at(&counts[9], node.count());
      wrong += counts[0] != kRounds || (node.count() > 1 && counts[2048] != kRounds);
      node.barrier_at(&counts[10 + node.id()], 1);
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Objects, TriesFailWhileALockIsHeldAndSucceedLater) {
  expect_runs(GetParam(), [] {
    auto* const shared = allocate<unsigned>(1);
    std::atomic<unsigned> wrong = 0;
    parallel([&](Node& node) {
      if (node.id() == 0) node.lock_at(shared);
      node.barrier();
      wrong += node.try_lock_at(shared);  // also the holder's
      wrong += node.id() == 0 ? !node.try_lock(3) : 0;
      node.barrier();
      wrong += node.try_lock(3);
      node.barrier();
      if (node.id() == 0) {
        node.unlock_at(shared);
        node.unlock(3);
      }
      for (unsigned i = 0; i < 20;) {
        if (!node.try_lock_at(shared)) continue;
        ++*shared;
        node.unlock_at(shared);
        ++i;
      }
      node.barrier();
      wrong += *shared != 20 * node.count();
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Objects, SemaphoresAndFlagsAtAddresses) {
  expect_runs(GetParam(), [] {
    auto* const memory = allocate<unsigned>(4096);
    std::atomic<unsigned> wrong = 0;
    parallel([&](Node& node) {
      if (node.id() == 0) {
        memory[2000] = 7;
        node.semaphore_set_at(&memory[1], 3);
        for (unsigned i = 0; i < 3; ++i) wrong += !node.semaphore_try_at(&memory[1]);
        wrong += node.semaphore_try_at(&memory[1]);
      }
      node.barrier();
      if (node.id() == 0) {
        node.semaphore_post_at(&memory[1], node.count());
        node.flag_set_at(&memory[1]);  // another object of the same address
      }
      node.semaphore_wait_at(&memory[1]);
      wrong += memory[2000] != 7;
      node.flag_wait_at(&memory[1]);
      node.barrier_at(&memory[1], node.count());
      if (node.id() == 0) node.flag_clear_at(&memory[1]);
      wrong += node.semaphore_try_at(&memory[1]);
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST(ObjectsMisuse, IsNamed) {
  const auto expect = [](const std::function<void(Node&, unsigned*)>& body, const std::string& text) {
    const Ending ending = run_machine({.clusters = 1, .compute = 2, .heap_mib = 1}, [&] {
                            auto* const memory = allocate<unsigned>(16);
                            parallel([&](Node& node) { body(node, memory); });
                            return finish(0);
                          }).front();
    EXPECT_EQ(ending.exit_status, kFailureStatus) << "signal " << ending.signal << ": " << ending.text;
    EXPECT_THAT(ending.text, HasSubstr(text));
  };
  expect(
      [](Node& n, unsigned*) {
        unsigned on_stack = 0;
        n.lock_at(&on_stack);
      },
      "which is not in shared memory: name objects by addresses of allocate() or shared_malloc()");
  expect([](Node& n, unsigned* m) { n.flag_set_at(reinterpret_cast<char*>(m) + 2); },
         "flag_set_at() was called with address 0x7e9000000002: addresses of objects are multiples of 4");
  expect(
      [](Node& n, unsigned* m) {
        if (n.id() != 0) return;
        n.lock_at(m + 2);
        n.lock_at(m + 2);
      },
      "compute node 0 locks the lock at 0x7e9000000008, which it has already: locks are not recursive");
  expect([](Node& n, unsigned* m) { n.unlock_at(m); },
         "unlocks the lock at 0x7e9000000000, which it does not have");
  expect([](Node& n, unsigned* m) { n.condition_wait_at(m + 1, m); },
         "waits for the condition at 0x7e9000000004 with the lock at 0x7e9000000000, which it does not have");
  expect([](Node& n, unsigned* m) { n.barrier_at(m, 0); },
         "barrier_at() was called for 0 compute nodes: there are 2");
  expect([](Node& n, unsigned* m) { n.barrier_at(m, 3); },
         "barrier_at() was called for 3 compute nodes: there are 2");
  expect(
      [](Node& n, unsigned* m) {
        if (n.id() == 0) n.barrier_at(m, 2);
        while (n.id() == 1) n.barrier_at(m, 1);
      },
      "where others wait for another number");
}

}  // namespace
}  // namespace braid::dsm
