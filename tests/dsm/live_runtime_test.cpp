// Programs on whole machines: a process for each cluster, connected by sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/clock.h"
#include "dsm/api.h"
#include "dsm/engine/messages.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

// Every shape runs with messages in order, and with those in flight in any order.
class Machines : public testing::TestWithParam<LiveMachine> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Machines,
                         testing::Values(LiveMachine{.clusters = 1, .compute = 1},
                                         LiveMachine{.clusters = 1, .compute = 4},
                                         LiveMachine{.clusters = 2, .compute = 1},
                                         LiveMachine{.clusters = 2, .compute = 2},
                                         LiveMachine{.clusters = 2, .compute = 2, .order = Order::kShuffled},
                                         LiveMachine{.clusters = 2,
                                                     .compute = 2,
                                                     .order = Order::kShuffled,
                                                     .protect = Environment::Protect::kMprotect},
                                         LiveMachine{.clusters = 2, .compute = 2, .moves_only_in_poll = true},
                                         LiveMachine{.clusters = 4, .compute = 1},
                                         LiveMachine{.clusters = 4, .compute = 2, .order = Order::kShuffled}),
                         [](const auto& shape) { return shape_of(shape.param); });

TEST_P(Machines, WritesAreVisibleToAllAfterABarrier) {
  const LiveMachine machine = GetParam();
  expect_runs(machine, [&] {
    constexpr std::size_t kThings = 5000;  // several pages; shares end inside pages
    auto* const things = allocate<std::uint64_t>(kThings);
    unsigned wrong = 0;
    parallel([&](Node& node) {
      if (node.count() != machine.clusters * machine.compute) ++wrong;
      for (std::uint64_t round = 1; round <= 3; ++round) {
        for (const std::size_t i : node.share(kThings)) things[i] = i * round;
        node.barrier();
        for (std::size_t i = 0; i < kThings; ++i) {
          if (things[i] != i * round) ++wrong;
        }
        node.barrier(1);
      }
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Machines, IncrementsUnderALockAreExact) {
  const LiveMachine machine = GetParam();
  expect_runs(machine, [&] {
    constexpr unsigned kTimes = 50;
    auto* const counters = allocate<unsigned>(2);
    parallel([&](Node& node) {
      for (unsigned i = 0; i < kTimes; ++i) {
        const LockGuard guard(node, i % 2);
        ++counters[i % 2];
      }
    });
    const unsigned expected = machine.clusters * machine.compute * kTimes / 2;
    return finish(counters[0] == expected && counters[1] == expected ? 0 : 1);
  });
}

TEST_P(Machines, WritesOfTheInitialThreadAreVisibleToAll) {
  expect_runs(GetParam(), [&] {
    auto* const value = allocate<int>(1, Placement::cyclic());
    unsigned wrong = 0;
    for (int round = 1; round <= 5; ++round) {
      if (cluster() == static_cast<unsigned>(round) % clusters()) *value = round;
      parallel([&](Node& node) {
        if (*value != round) ++wrong;
        node.barrier();
      });
    }
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Machines, SharesCoverEverythingOnce) {
  expect_runs(GetParam(), [&] {
    auto* const taken = allocate<unsigned char>(1000);
    parallel([&](Node& node) {
      for (const std::size_t i : node.share(1000)) ++taken[i];
    });
    bool all_once = true;
    for (std::size_t i = 0; i < 1000; ++i) all_once = all_once && taken[i] == 1;
    return finish(all_once ? 0 : 1);
  });
}

void see_that_a_computing_home_serves(const LiveMachine& machine) {
  // Cluster 0 reads while cluster 1's only compute node never enters the runtime until it has seen the pages
  // go.
  auto* const stop = static_cast<std::atomic<bool>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  expect_runs(machine, [&] {
    constexpr std::size_t kPages = 50;
    auto* const data = allocate<int>(kPages * 1024, Placement::on(1));
    parallel([&](Node& node) {
      if (node.cluster() == 1) {
        while (!stop->load()) continue;
        return;
      }
      int sum = 0;
      for (std::size_t p = 0; p < kPages; ++p) sum += data[p * 1024];
      stop->store(sum == 0);
    });
    return finish(stop->load() ? 0 : 1);
  });
  ::munmap(stop, 4096);
}

TEST(Runtime, ServerThreadServesWhileTheNodeComputes) {
  see_that_a_computing_home_serves({.clusters = 2});
}

TEST(Runtime, ServerPollsWhereThereIsNoBell) {
  see_that_a_computing_home_serves({.clusters = 2, .moves_only_in_poll = true});
}

TEST(Runtime, LongWaitSleepsAndEnds) {
  // Longer than any node polls: waiting nodes park, and are woken by the bell and the server.
  expect_runs({.clusters = 2, .compute = 2}, [] {
    auto* const data = allocate<int>(1);
    unsigned wrong = 0;
    parallel([&](Node& node) {
      for (unsigned late = 0; late < node.count(); ++late) {
        if (node.id() == late) {
          ::usleep(20'000);
          *data = static_cast<int>(late);
        }
        node.barrier();
        if (*data != static_cast<int>(late)) ++wrong;
        node.barrier();
      }
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

// Of cluster 0.
nlohmann::json report_of(LiveMachine machine, const std::function<int()>& program) {
  int report[2];
  EXPECT_EQ(::pipe(report), 0);
  machine.adjust = [&](Environment& e) {
    if (e.cluster == 0) e.report_fd = report[1];
  };
  expect_runs(machine, program);
  ::close(report[1]);
  std::string text(16384, '\0');
  const ssize_t n = ::read(report[0], text.data(), text.size());
  ::close(report[0]);
  EXPECT_GT(n, 0);
  return nlohmann::json::parse(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0))), nullptr,
                               /*allow_exceptions=*/false);
}

TEST(Runtime, ReportCountsTheOperationsOfNodes) {
  const nlohmann::json json = report_of({.clusters = 2}, [] {
    auto* const data = allocate<int>(3 * 1024, Placement::on(1));
    parallel([&](Node& node) {
      if (node.cluster() != 0) return;
      for (int p = 3; p-- > 0;) {  // backwards: nothing is fetched ahead
        if (data[p * 1024] != 0) std::abort();
      }
      const LockGuard guard(node, 5);
      data[0] = 1;
    });
    return finish(0);
  });
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["cluster"], 0);
  ASSERT_EQ(json["nodes"].size(), 1u);
  const nlohmann::json& node = json["nodes"][0];
  EXPECT_EQ(node["node"], 0);
  EXPECT_EQ(node["read_faults"], 3);
  EXPECT_EQ(node["write_faults"], 1);
  EXPECT_EQ(node["fetches"], 3);
  EXPECT_EQ(node["lock_calls"], 1);
  EXPECT_GT(node["faults_ns"], 0);
  EXPECT_GT(node["barriers_ns"], 0);
  EXPECT_EQ(json["cluster_counts"]["diffs_sent"], 1);
  EXPECT_EQ(json["cluster_counts"]["bad_messages"], 0);
  EXPECT_GT(json["endpoint"]["messages_sent"], 0);
}

// Bounds of a time, which cluster 0 measures and the test sees; in nanoseconds.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
Bounds* shared_bounds() {
  void* const memory =
      ::mmap(nullptr, sizeof(Bounds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return new (memory) Bounds;
}

TEST(Runtime, TimeInParallelIsTheSumOfItsCalls) {
  Bounds* const bounds = shared_bounds();
  const nlohmann::json json = report_of({.clusters = 2}, [&] {
    for (int i = 0; i < 2; ++i) {
      ::usleep(50'000);  // outside
      const Instant before = monotonic_now();
      parallel([&](Node& node) {
        const Instant began = monotonic_now();
        ::usleep(20'000);
        if (node.id() == 0) bounds->least += (monotonic_now() - began).ns();
      });
      if (cluster() == 0) bounds->most += (monotonic_now() - before).ns();
    }
    return finish(0);
  });
  ASSERT_FALSE(json.is_discarded());
  EXPECT_GE(json["parallel_ns"], bounds->least);
  EXPECT_LE(json["parallel_ns"], bounds->most);
  ::munmap(bounds, sizeof *bounds);
}

TEST(Runtime, FiguresResetRestartsTheTimeInParallel) {
  Bounds* const bounds = shared_bounds();
  const nlohmann::json json = report_of({.clusters = 2}, [&] {
    Instant before;
    parallel([&](Node& node) {
      ::usleep(50'000);
      if (node.id() == 0) before = monotonic_now();
      node.reset_figures();
      const Instant after = monotonic_now();
      ::usleep(20'000);
      if (node.id() == 0) bounds->least = (monotonic_now() - after).ns();
    });
    if (cluster() == 0) bounds->most = (monotonic_now() - before).ns();
    return finish(0);
  });
  ASSERT_FALSE(json.is_discarded());
  EXPECT_GE(json["parallel_ns"], bounds->least);
  EXPECT_LE(json["parallel_ns"], bounds->most);
  ::munmap(bounds, sizeof *bounds);
}

TEST(Runtime, FiguresTellWhatComesAfterTheirReset) {
  const nlohmann::json json = report_of({.clusters = 2}, [] {
    auto* const data = allocate<int>(3 * 1024, Placement::on(1));
    parallel([&](Node& node) {
      if (node.cluster() == 0) {
        for (int p = 3; p-- > 0;) {  // backwards: nothing is fetched ahead
          if (data[p * 1024] != 0) std::abort();
        }
        const LockGuard guard(node, 5);
        data[0] = 1;
      }
      node.reset_figures(3);
      if (node.cluster() == 0) data[1024] = 1;
    });
    return finish(0);
  });
  ASSERT_FALSE(json.is_discarded());
  const nlohmann::json& node = json["nodes"][0];
  EXPECT_EQ(node["read_faults"], 0);
  EXPECT_EQ(node["write_faults"], 1);
  EXPECT_EQ(node["lock_calls"], 0);
  EXPECT_EQ(node["locks_ns"], 0);
  EXPECT_EQ(node["barriers"], 2) << "the second one of reset_figures(), and the end of parallel()";
  EXPECT_EQ(json["cluster_counts"]["diffs_sent"], 1);
  EXPECT_EQ(json["cluster_counts"]["sent_page_request"], 0);
  EXPECT_EQ(json["costly_locks"].size(), 0u);
  ASSERT_EQ(json["costly_pages"].size(), 1u);
  EXPECT_EQ(json["costly_pages"][0]["write_faults"], 1);
  EXPECT_GT(json["endpoint"]["messages_sent"], 0);
  EXPECT_LT(json["endpoint"]["messages_sent"], 10);
}

TEST(Runtime, ReportCountsPagesFetchedAheadAndMovedHomes) {
  const nlohmann::json json = report_of({.clusters = 3}, [] {
    const auto scanned = allocate<int>(16 * 1024, Placement::on(1));
    const auto touched =
        allocate<int>(3 * 1024, Placement::first_touch());  // each cluster keeps one of three
    parallel([&](Node& node) {
      const auto use = [&](std::uint16_t cluster, auto what) {
        if (node.cluster() == cluster) what();
        node.barrier();
      };
      use(0, [&] {
        for (int p = 0; p < 16; ++p)
          if (scanned[p * 1024] != 0) std::abort();
      });
      use(1, [&] {
        for (int p = 0; p < 3; ++p) touched[p * 1024] = p;
      });
      use(2, [&] {
        for (int p = 0; p < 3; ++p)
          if (touched[p * 1024] != p) std::abort();
      });
    });
    return finish(0);
  });
  ASSERT_FALSE(json.is_discarded());
  const nlohmann::json& counts = json["cluster_counts"];
  EXPECT_GT(counts["fetched_ahead"], 0);
  EXPECT_EQ(counts["homes_given"], 1);
  EXPECT_EQ(counts["forwarded"], 1);
}

// --- Errors that must end the program instead of waiting for ever

void expect_failure(const Ending& ending, const std::string& text) {
  EXPECT_EQ(ending.exit_status, kFailureStatus) << "signal " << ending.signal << ": " << ending.text;
  EXPECT_THAT(ending.text, HasSubstr(text));
}

TEST(Failure, DeathOfAClusterEndsTheOthersAndIsNamed) {
  const Instant before = monotonic_now();
  const std::vector<Ending> endings = run_machine({.clusters = 3}, [] {
    parallel([](Node& node) {
      if (node.cluster() == 1) ::kill(::getpid(), SIGKILL);
      node.barrier();  // polls, then sleeps, for one who never comes
    });
    return finish(0);
  });
  EXPECT_LT(monotonic_now() - before, 5_s);
  EXPECT_EQ(endings[1].signal, SIGKILL);
  expect_failure(endings[0], "braid: cluster 0: lost cluster 1: its socket was closed");
  EXPECT_EQ(endings[2].exit_status, kFailureStatus);
}

TEST(Failure, LossIsDetectedWhileAllNodesCompute) {
  const Instant before = monotonic_now();
  const std::vector<Ending> endings = run_machine({.clusters = 2}, [] {
    parallel([](Node& node) {
      if (node.cluster() == 1) ::_exit(9);
      for (;;) ::usleep(1000);
    });
    return finish(0);
  });
  EXPECT_LT(monotonic_now() - before, 5_s);
  expect_failure(endings[0], "cluster 0: lost cluster 1");
}

// PG-27: a node that waits for it would wait for ever.
TEST(Failure, InvalidMessageEndsTheProgramAndIsNamed) {
  constexpr std::size_t kHeader = kMessageHeaderBytes;  // and behind it a page engine's message
  const auto is = [](Kind kind, ByteView message) {
    return message.size() > kHeader && message[0] == std::byte{1} &&
           parse(PageLength(), message.subspan(kHeader)) &&
           parse(PageLength(), message.subspan(kHeader))->header.kind == kind;
  };
  const auto damaged = [&](const std::function<void(MutableBytes)>& damage) {
    LiveMachine machine{.clusters = 3};
    machine.damage = [&](std::uint16_t from, std::uint16_t to, MutableBytes message) {
      if (from == 2 && to == 0) damage(message);
    };
    const Instant before = monotonic_now();
    const Ending ending = run_machine(machine, [] {
                            const auto page = allocate<int>(1, Placement::on(0));
                            parallel([&](Node& node) {
                              if (node.id() == 2) page[0] = 5;
                              node.barrier();
                            });
                            return finish(0);
                          }).front();
    EXPECT_LT(monotonic_now() - before, 5_s);
    return ending;
  };
  expect_failure(damaged([&](MutableBytes m) {
                   if (is(Kind::kBarrierArrive, m)) m[kHeader + 8] ^= std::byte{4};
                 }),
                 "braid: cluster 0: cluster 2 sent an arrival at a barrier (0, number 4, 20 bytes), which is "
                 "refused: there is no such barrier below this cluster, or it is not of that generation. A "
                 "message was damaged, lost or duplicated in flight, so the program cannot continue");
  expect_failure(
      damaged([&](MutableBytes m) {
        if (is(Kind::kPageRequest, m)) m[kHeader] = std::byte{99};
      }),
      "cluster 0: cluster 2 sent bytes that are not a message (0, number 0, 12 bytes), which is refused: "
      "they are too few, of no kind, or not of their kind's form");
  expect_failure(
      damaged([&](MutableBytes m) {
        if (is(Kind::kPageRequest, m)) m[0] = std::byte{9};
      }),
      "cluster 0: cluster 2 sent bytes that are not a message of a runtime (0, number 0, 20 bytes)");
}

TEST(Failure, ExitWithoutFinishIsALoss) {
  const std::vector<Ending> endings = run_machine({.clusters = 2}, [] {
    if (cluster() == 1) return 0;
    return finish(0);
  });
  expect_failure(endings[0], "lost cluster 1");
}

TEST(Failure, DifferentAllocationsAreRefused) {
  const std::vector<Ending> endings = run_machine({.clusters = 2}, [] {
    allocate<int>(cluster() == 0 ? 100 : 200);
    return finish(0);
  });
  expect_failure(endings[0],
                 "cluster 0 allocates 400 bytes (block) where cluster 1 allocates 800 bytes (block)");
  expect_failure(endings[1],
                 "cluster 1 allocates 800 bytes (block) where cluster 0 allocates 400 bytes (block)");
}

TEST(Failure, DifferentHeapsAreRefused) {
  const std::vector<Ending> endings = run_machine(
      {.clusters = 2, .adjust = [](Environment& e) { e.heap_mib = 4 + e.cluster; }}, [] { return 0; });
  expect_failure(endings[0], "BRAID_HEAP_MIB is 4 here in cluster 0, but 5 in cluster 1");
}

TEST(Failure, ClusterThatNeverJoinsIsNamedAfterTheTimeout) {
  const std::vector<Ending> endings = run_machine({.clusters = 2,
                                                   .adjust =
                                                       [](Environment& e) {
                                                         e.connect_timeout = 200_ms;
                                                         if (e.cluster == 1) ::usleep(1'000'000);
                                                       }},
                                                  [] { return finish(0); });
  expect_failure(endings[0], "cluster(s) 1 did not join within 200 ms");
}

TEST(Failure, InvalidCallsAreExplained) {
  const auto alone = [](const std::function<int()>& program) {
    return run_machine({.clusters = 1, .heap_mib = 1}, program).front();
  };
  expect_failure(
      alone([] {
        allocate<char>(500'000);
        allocate<char>(600'000);
        return 0;
      }),
      "the shared heap of 1 MiB is full: 600000 bytes were requested, 544768 are free; raise BRAID_HEAP_MIB");
  expect_failure(alone([] {
                   parallel([](Node& node) { node.lock(4096); });
                   return 0;
                 }),
                 "lock 4096 does not exist: there are 4096");
  expect_failure(alone([] {
                   parallel([](Node& node) { node.barrier(64); });
                   return 0;
                 }),
                 "barrier 64 does not exist: there are 64");
  expect_failure(alone([] {
                   parallel([](Node&) { parallel([](Node&) {}); });
                   return 0;
                 }),
                 "parallel() was called inside parallel()");
  expect_failure(alone([] {
                   allocate<int>(1, Placement::on(1));
                   return 0;
                 }),
                 "called for cluster 1, which does not exist: there are 1");
  expect_failure(alone([] {
                   parallel([](Node&) { throw std::runtime_error("no such file"); });
                   return 0;
                 }),
                 "compute node 0: an exception left the function given to parallel(): no such file");
  expect_failure(alone([] {
                   finish(0);
                   return static_cast<int>(clusters());
                 }),
                 "clusters() was called before braid::dsm::init(), or after finish()");
}

}  // namespace
}  // namespace braid::dsm
