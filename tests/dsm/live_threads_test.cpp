// Threads that parallel() did not make, as compute nodes (dsm/threads.h).
#include "dsm/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dsm/api.h"
#include "dsm/program/failure.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

// Runs body(local) on the initial thread as compute node 0 and on adopted threads as the others; waits for
// them.
void on_adopted_threads(const std::function<void(unsigned local)>& body) {
  std::vector<std::thread> threads;
  for (unsigned local = 1; local < nodes_per_cluster(); ++local) {
    threads.emplace_back([&body, local] {
      const AdoptedThread adopted(local);
      body(local);
    });
  }
  body(0);
  for (std::thread& thread : threads) thread.join();
}

TEST(AdoptedThreads, WritesAreVisibleToAllAfterTheBarrier) {
  for (const Order order : {Order::kAsSent, Order::kShuffled}) {
    expect_runs({.clusters = 2, .compute = 3, .order = order}, [] {
      constexpr std::size_t kThings = 5000;  // several pages; shares end inside pages
      auto* const things = allocate<std::uint64_t>(kThings);
      std::atomic<unsigned> wrong = 0;
      for (std::uint64_t round = 1; round <= 3; ++round) {
        on_adopted_threads([&](unsigned local) {
          const unsigned id = cluster() * nodes_per_cluster() + local;
          for (std::size_t i = id; i < kThings; i += 6) things[i] = i * round;
        });
        barrier();
        on_adopted_threads([&](unsigned) {
          for (std::size_t i = 0; i < kThings; ++i) {
            if (things[i] != i * round) ++wrong;
          }
        });
        barrier();
      }
      // And parallel()'s threads take their compute nodes' places again.
      parallel([&](Node& node) {
        for (const std::size_t i : node.share(kThings)) {
          if (things[i] != i * 3) ++wrong;
        }
      });
      return finish(wrong == 0 ? 0 : 1);
    });
  }
}

// The text with which `program` ends as cluster 0 of two clusters of two compute nodes.
std::string last_words(const std::function<void()>& program) {
  const std::vector<Ending> endings = run_machine({.clusters = 2, .compute = 2, .heap_mib = 32}, [&] {
    program();
    return finish(0);
  });
  EXPECT_EQ(endings[0].exit_status, kFailureStatus) << "signal " << endings[0].signal;
  return endings[0].text;
}

TEST(AdoptedThreads, InvalidCallsAreExplained) {
  const auto adopted_as = [](unsigned local) {
    return last_words([local] { std::thread([local] { const AdoptedThread adopted(local); }).join(); });
  };
  EXPECT_THAT(adopted_as(0),
              HasSubstr("cannot be adopted as compute node 0 of its cluster: there are 2, and 0 "
                        "is the initial thread; BRAID_COMPUTE has more"));
  EXPECT_THAT(adopted_as(2), HasSubstr("cannot be adopted as compute node 2 of its cluster: there are 2"));
  EXPECT_THAT(last_words([] { const AdoptedThread adopted(1); }),
              HasSubstr("a thread that is compute node 0 of its cluster already cannot be adopted"));
  EXPECT_THAT(last_words([] { std::thread([] { barrier(); }).join(); }),
              HasSubstr("braid::dsm::barrier() was called by a thread that is not the initial one"));
  EXPECT_THAT(last_words([] { parallel([](Node&) { barrier(); }); }),
              HasSubstr("braid::dsm::barrier() was called inside parallel(): call Node::barrier() there"));
}

// Memory of all processes of a machine, and of the test.
struct HeldRequest {
  std::atomic<::pid_t> asker{0};     // cluster 0, from before its first access on
  std::atomic<bool> arrived{false};  // its request is with cluster 1, which does not answer it
};

// Waits for the end of a process that another one reaps.
void wait_for_end_of(::pid_t process) {
  const auto ending = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (ending < 0) return;  // ended and reaped already
  pollfd readable{.fd = ending, .events = POLLIN, .revents = 0};
  ::poll(&readable, 1, -1);
  ::close(ending);
}

TEST(AdoptedThreads, TwoForOneComputeNodeAreAnError) {
  void* const shared =
      ::mmap(nullptr, sizeof(HeldRequest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& held = *new (shared) HeldRequest;
  LiveMachine machine{.clusters = 2, .compute = 2};
  machine.damage = [&held](std::uint16_t, std::uint16_t to, MutableBytes) {
    if (to != 1 || held.asker == 0) return;
    held.arrived = true;
    wait_for_end_of(held.asker);
  };
  const std::vector<Ending> endings = run_machine(machine, [&held] {
    auto* const data = allocate<volatile char>(2 * 4096, Placement::on(1));
    if (cluster() == 0) {
      std::thread first([&] {
        const AdoptedThread adopted(1);
        held.asker = ::getpid();
        data[0];  // waits for cluster 1
      });
      std::thread second([&] {
        const AdoptedThread adopted(1);
        while (!held.arrived) std::this_thread::yield();
        data[4096];
      });
      first.join();
      second.join();
    }
    return finish(0);
  });
  ::munmap(shared, sizeof(HeldRequest));
  EXPECT_EQ(endings[0].exit_status, kFailureStatus) << "signal " << endings[0].signal;
  EXPECT_THAT(endings[0].text,
              HasSubstr("compute node 1: two threads accessed shared memory for it at the same time"));
}

TEST(AdoptedThreads, MayNotTouchSharedMemoryAfterTheyWereReleased) {
  const std::vector<Ending> endings = run_machine({.clusters = 1, .compute = 2}, [] {
    auto* const data = allocate<volatile int>(1);
    std::thread([data] {
      {
        const AdoptedThread adopted(1);
        *data = 1;
      }
      data[1024 * 512] = 1;  // an untouched page
    }).join();
    return finish(0);
  });
  EXPECT_TRUE(crashed(endings[0])) << endings[0].exit_status << endings[0].text;
  EXPECT_THAT(endings[0].text, HasSubstr("a thread that is not a compute node accessed shared memory"));
}

TEST(RunOnCluster, DividesLoopsBetweenBarriers) {
  expect_runs({.clusters = 2, .compute = 3}, [] {
    constexpr std::size_t kThings = 5000;
    auto* const things = allocate<std::uint64_t>(kThings);
    std::atomic<unsigned> wrong = 0;
    for (std::uint64_t round = 1; round <= 3; ++round) {
      run_on_cluster([&](unsigned local) {
        for (std::size_t i = cluster() * 3 + local; i < kThings; i += 6) things[i] = i * round;
      });
      barrier();
      run_on_cluster([&](unsigned) {
        for (std::size_t i = 0; i < kThings; ++i) {
          if (things[i] != i * round) ++wrong;
        }
      });
      barrier();
    }
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST(RunOnCluster, InvolvesNoOtherCluster) {
  expect_runs({.clusters = 2, .compute = 2}, [] {
    std::atomic<unsigned> calls = 0;
    for (unsigned i = 0; i < 3 * cluster(); ++i) run_on_cluster([&](unsigned local) { calls += 1 + local; });
    return finish(calls == 9 * cluster() ? 0 : 1);
  });
}

TEST(RunOnCluster, InvalidCallsAreExplained) {
  EXPECT_THAT(last_words([] { parallel([](Node&) { run_on_cluster([](unsigned) {}); }); }),
              HasSubstr("run_on_cluster() was called inside parallel(), or inside itself"));
  EXPECT_THAT(last_words([] { run_on_cluster([](unsigned) { barrier(); }); }),
              HasSubstr("braid::dsm::barrier() was called inside parallel()"));
  EXPECT_THAT(last_words([] { std::thread([] { run_on_cluster([](unsigned) {}); }).join(); }),
              HasSubstr("run_on_cluster() was called by a thread that is not the initial one"));
  EXPECT_THAT(last_words([] { run_on_cluster([](unsigned) { throw std::runtime_error("too much"); }); }),
              HasSubstr("an exception left the function given to run_on_cluster(): too much"));
}

}  // namespace
}  // namespace braid::dsm
