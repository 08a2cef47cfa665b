// The calls of programs besides barriers and locks, on whole machines: a process for each cluster, connected by
// sockets.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "dsm/api.h"
#include "dsm/braid_dsm.h"
#include "dsm/program/failure.h"
#include "tests/dsm/live_c_program.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

class Api : public testing::TestWithParam<LiveMachine> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Api,
                         testing::Values(LiveMachine{.clusters = 1, .compute = 3},
                                         LiveMachine{.clusters = 2, .compute = 2},
                                         LiveMachine{.clusters = 3, .compute = 2, .order = Order::kShuffled}),
                         [](const auto& shape) { return shape_of(shape.param); });

TEST_P(Api, EveryNodeFindsItself) {
  expect_runs(GetParam(), [] {
    std::atomic<unsigned> wrong = 0;
    parallel([&](Node& node) {
      wrong += self().id() != node.id() || self().local() != node.local();
      wrong += braid_node_id(braid_self()) != node.id() || braid_self() != braid_self();
    });
    return wrong == 0 ? 0 : 1;
  });
}

TEST(LargestCluster, AllItsNodesWaitAndAreWoken) {
  expect_runs({.clusters = 2, .compute = kMaxComputeNodes}, [] {
    auto* const sum = allocate<unsigned>(1);
    unsigned wrong = 0;
    parallel([&](Node& node) {
      for (unsigned round = 1; round <= 3; ++round) {
        {
          const LockGuard guard(node, 0);
          *sum += node.id();
        }
        node.barrier();
        if (node.local() == kMaxComputeNodes - 1)
          wrong += *sum != round * node.count() * (node.count() - 1) / 2;
        node.barrier();
      }
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST(ApiMisuse, SelfOutsideParallelIsNamed) {
  for (const Ending& ending : run_machine({.clusters = 1}, [] {
         (void)self();
         return 0;
       })) {
    EXPECT_EQ(ending.exit_status, kFailureStatus);
    EXPECT_THAT(ending.text, HasSubstr("self() was called outside parallel()"));
  }
}

TEST(ApiMisuse, CopyBetweenOverlappingRangesIsNamed) {
  for (const int distance : {-9, 0, 9}) {
    for (const Ending& ending : run_machine({.clusters = 1}, [=] {
           auto* const bytes = allocate<char>(100);
           copy(bytes + 50 + distance, bytes + 50, 10);
           return 0;
         })) {
      EXPECT_EQ(ending.exit_status, kFailureStatus) << distance;
      EXPECT_THAT(ending.text, HasSubstr("copy() was called for 10 bytes"));
      EXPECT_THAT(ending.text, HasSubstr("which overlap"));
    }
  }
}

TEST_P(Api, BoundedBufferDeliversEachItemOnce) {
  expect_runs(GetParam(), [] {
    constexpr unsigned kRoom = 3, kEach = 40, kLock = 4, kNotEmpty = 20'001, kNotFull = 32'767;
    struct Buffer {
      unsigned things[kRoom];
      unsigned count, taken;
      std::uint64_t sum;
    };
    auto* const buffer = allocate<Buffer>(1);
    parallel([&](Node& node) {
      // Even nodes put in, odd ones take out; a last even one without a partner does both.
      const bool both = node.id() + 1 == node.count() && node.id() % 2 == 0;
      for (unsigned i = 0; i < kEach; ++i) {
        if (node.id() % 2 == 0) {
          const LockGuard guard(node, kLock);
          while (buffer->count == kRoom) node.condition_wait(kNotFull, kLock);
          buffer->things[buffer->count++] = node.id() * kEach + i + 1;
          node.condition_signal(kNotEmpty);
        }
        if (node.id() % 2 == 1 || both) {
          const LockGuard guard(node, kLock);
          while (buffer->count == 0) node.condition_wait(kNotEmpty, kLock);
          buffer->sum += buffer->things[--buffer->count];
          ++buffer->taken;
          node.condition_signal(kNotFull);
        }
      }
    });
    const unsigned nodes = clusters() * nodes_per_cluster();
    std::uint64_t expected = 0;
    for (unsigned n = 0; n < nodes; n += 2)
      for (unsigned i = 0; i < kEach; ++i) expected += n * kEach + i + 1;
    return finish(buffer->sum == expected && buffer->taken == (nodes + 1) / 2 * kEach ? 0 : 1);
  });
}

TEST_P(Api, FlagAndSemaphoreMakeWritesVisible) {
  expect_runs(GetParam(), [] {
    auto* const message = allocate<unsigned>(3000, Placement::on(clusters() - 1));
    auto* const turns = allocate<unsigned>(1);
    std::atomic<unsigned> wrong{0};
    parallel([&](Node& node) {
      for (unsigned round = 1; round <= 5; ++round) {
        const unsigned flag = 4000 + round;
        if (node.id() == round % node.count()) {
          for (std::size_t i = 0; i < 3000; ++i) message[i] = round + static_cast<unsigned>(i);
          node.flag_set(flag);
        }
        node.flag_wait(flag);
        for (std::size_t i = 0; i < 3000; i += 100) {
          if (message[i] != round + i) ++wrong;
        }
        node.barrier();
      }
      if (node.id() == 0) node.semaphore_post(4095);
      for (int i = 0; i < 10; ++i) {
        node.semaphore_wait(4095);
        ++*turns;
        node.semaphore_post(4095);
      }
      node.barrier();
      if (*turns != node.count() * 10) ++wrong;
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Api, WordsCountExactlyAndHaveOneWinner) {
  expect_runs(GetParam(), [] {
    constexpr unsigned kTimes = 60, kCounter = 4095, kWinner = 17;
    auto* const taken = allocate<unsigned char>(10'000);
    std::atomic<unsigned> wrong{0};
    parallel([&](Node& node) {
      for (unsigned i = 0; i < kTimes; ++i) {
        const auto ticket = static_cast<std::size_t>(
            node.fetch_add(kCounter, 1, i % 2 == 0 ? MemoryOrder::kRelaxed : MemoryOrder::kAcquireRelease));
        ++taken[ticket];
      }
      const bool won = node.compare_exchange(kWinner, 0, -1 - static_cast<std::int64_t>(node.id())) == 0;
      if (node.reduce(won ? 1 : 0) != 1) ++wrong;
      if (won && node.load(kWinner) != -1 - static_cast<std::int64_t>(node.id())) ++wrong;
      if (node.load(kCounter) != node.count() * kTimes) ++wrong;
      for (std::size_t i = 0; i < node.count() * kTimes; ++i) {
        if (taken[i] != 1) ++wrong;
      }
      node.barrier();
      if (node.id() == 0) {
        if (node.exchange(kCounter, INT64_MIN) != node.count() * kTimes) ++wrong;
        node.store(kWinner, 5);
      }
      node.barrier();
      if (node.load(kCounter) != INT64_MIN || node.load(kWinner) != 5) ++wrong;
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Api, ReductionsAreTheSameEverywhereAndInEveryRun) {
  expect_runs(GetParam(), [] {
    std::atomic<unsigned> wrong{0};
    parallel([&](Node& node) {
      const unsigned n = node.count();
      const auto check = [&](bool right) {
        if (!right) ++wrong;
      };
      check(node.reduce(node.id() + 1) == n * (n + 1) / 2);
      check(node.reduce(-static_cast<int>(node.id()), Reduce::kMin, 63) == -static_cast<int>(n - 1));
      check(node.reduce(static_cast<short>(node.id()), Reduce::kMax) == static_cast<short>(n - 1));
      check(node.reduce(node.id() + 0.25, Reduce::kMin) == 0.25);
      check(node.reduce(static_cast<float>(node.id()), Reduce::kMax) == static_cast<float>(n - 1));
      check(node.reduce(~std::uint64_t{0} - node.id(), Reduce::kMax) == ~std::uint64_t{0});
      const double first = node.reduce(1.0 / (3 + node.id()));
      for (int i = 0; i < 20; ++i) check(node.reduce(1.0 / (3 + node.id())) == first);
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Api, AllocationOfOneNodeIsUsableByAll) {
  LiveMachine machine = GetParam();
  machine.heap_mib = 8;
  expect_runs(machine, [] {
    struct List {
      List* next;
      unsigned owner, number;
    };
    auto* const head = allocate<List*>(1);
    std::atomic<unsigned> wrong{0};
    parallel([&](Node& node) {
      const Placement placements[] = {Placement::block(), Placement::cyclic(),
                                      Placement::on(node.id() % clusters()), Placement::first_touch()};
      for (unsigned i = 0; i < 6; ++i) {
        // Two pages and a bit, used from end to end.
        constexpr std::size_t kBytes = 9000;
        auto* const bytes = node.allocate<char>(kBytes, placements[i % 4]);
        for (std::size_t b = 0; b < kBytes; ++b) wrong += bytes[b] != 0;
        std::memset(bytes, static_cast<int>(node.id() + 1), kBytes);
        auto* const item = reinterpret_cast<List*>(bytes);
        const LockGuard guard(node, 1);
        *item = {*head, node.id(), i};
        *head = item;
      }
      node.barrier();
      std::vector<unsigned> seen(node.count());
      for (const List* item = *head; item != nullptr; item = item->next) {
        ++seen[item->owner];
        const char* const bytes = reinterpret_cast<const char*>(item);
        for (std::size_t b = sizeof(List); b < 9000; ++b)
          wrong += bytes[b] != static_cast<char>(item->owner + 1);
      }
      for (const unsigned times : seen) wrong += times != 6;
    });
    // All clusters together allocate behind it.
    auto* const together = allocate<unsigned>(2000);
    parallel([&](Node& node) {
      for (const std::size_t i : node.share(2000)) together[i] = static_cast<unsigned>(i);
      node.barrier();
      for (unsigned i = 0; i < 2000; ++i) wrong += together[i] != i;
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST_P(Api, ProgramInCUsesAllCalls) {
  expect_runs(GetParam(), braid_c_program);
}

// --- Library calls on shared memory

struct TemporaryFile {
  TemporaryFile() : fd(::memfd_create("bytes", 0)) {}
  ~TemporaryFile() { ::close(fd); }
  int fd;
};

// More bytes than are fetched ahead at a time, and no whole pages.
TEST(Calls, CopyMovesManyPagesBetweenClusters) {
  expect_runs({.clusters = 2}, [] {
    constexpr std::size_t kBytes = 1'000'000;
    auto* const from = allocate<char>(kBytes + 7, Placement::on(1));
    auto* const to = allocate<char>(kBytes + 7, Placement::on(1));
    std::atomic<unsigned> wrong{0};
    const auto value = [](std::size_t i) { return static_cast<char>(i * 7 + i / 4096); };
    parallel([&](Node& node) {
      if (node.cluster() == 1 && node.local() == 0)
        for (std::size_t i = 0; i < kBytes + 7; ++i) from[i] = value(i);
      node.barrier();
      if (node.id() == 0) copy(to + 3, from + 5, kBytes);
      node.barrier();
      wrong += to[2] != 0 || to[kBytes + 3] != 0;
      for (std::size_t i = 0; i < kBytes; ++i) wrong += to[i + 3] != value(i + 5);
      copy(to, to, 0);
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST(Calls, FilesAreReadAndWrittenByTheNamesOfTheApi) {
  expect_runs({.clusters = 2}, [] {
    constexpr std::size_t kBytes = 300'000;
    auto* const shared = allocate<char>(kBytes, Placement::on(1));
    std::atomic<unsigned> wrong{0};
    parallel([&](Node& node) {
      const auto check = [&](bool right) {
        if (!right) ++wrong;
      };
      if (node.cluster() == 1) std::memset(shared, 'x', kBytes);
      node.barrier();
      if (node.cluster() == 0) {
        const TemporaryFile file;
        check(write(file.fd, shared, kBytes) == kBytes);
        check(::lseek(file.fd, 0, SEEK_SET) == 0);
        std::vector<char> seen(kBytes);
        check(::read(file.fd, seen.data(), kBytes) == kBytes && seen == std::vector<char>(kBytes, 'x'));
        check(::pwrite(file.fd, std::vector<char>(kBytes, 'y').data(), kBytes, 0) == kBytes);
      }
      node.barrier();
      if (node.cluster() == 1) std::memset(shared, 'z', kBytes);
      node.barrier();
      if (node.cluster() == 0) {
        const TemporaryFile file;
        check(::write(file.fd, std::vector<char>(kBytes, 'y').data(), kBytes) == kBytes);
        check(::lseek(file.fd, 0, SEEK_SET) == 0);
        check(read(file.fd, shared, kBytes) == kBytes);
        check(read(file.fd, shared, 1) == 0);  // the end
        check(read(-1, shared, 1) == -1 && errno == EBADF);
      }
      node.barrier();
      for (std::size_t i = 0; i < kBytes; ++i) check(shared[i] == 'y');
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST(Calls, ReadFromAPipeReturnsWhatIsAvailable) {
  expect_runs({.clusters = 2}, [] {
    auto* const shared = allocate<char>(200'000, Placement::on(1));
    std::atomic<unsigned> wrong{0};
    parallel([&](Node& node) {
      if (node.cluster() != 0) return;
      int ends[2];
      if (::pipe(ends) != 0) ++wrong;
      wrong += ::write(ends[1], "braid", 5) != 5;
      wrong += read(ends[0], shared + 4094, 100'000) != 5;
      wrong += std::memcmp(shared + 4094, "braid", 5) != 0;
      // Exactly one chunk has been read, and the writer is still alive.
      const std::vector<char> chunk(65536, 'c');
      wrong += ::write(ends[1], chunk.data(), chunk.size()) != 65536;
      wrong += read(ends[0], shared, 200'000) != 65536;
      wrong += shared[65535] != 'c';
      ::close(ends[1]);
      wrong += read(ends[0], shared, 10) != 0;
      ::close(ends[0]);
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST(Calls, WorkWhileAnotherClusterInvalidatesThePages) {
  expect_runs({.clusters = 2, .compute = 1, .order = Order::kShuffled}, [] {
    // Cluster 0 reads into the even bytes' page halves while cluster 1 writes the other half of each page.
    constexpr std::size_t kPages = 8, kHalf = 2048;
    auto* const shared = allocate<char>(kPages * 2 * kHalf, Placement::on(1));
    std::atomic<unsigned> wrong{0};
    parallel([&](Node& node) {
      const TemporaryFile file;
      for (char round = 1; round <= 30; ++round) {
        for (std::size_t p = 0; p < kPages; ++p) {
          char* const mine = shared + p * 2 * kHalf + node.cluster() * kHalf;
          if (node.cluster() == 0) {
            const std::vector<char> bytes(kHalf, round);
            wrong += ::pwrite(file.fd, bytes.data(), kHalf, 0) != kHalf;
            ::lseek(file.fd, 0, SEEK_SET);
            wrong += read(file.fd, mine, kHalf) != kHalf;
          } else {
            prepare_write(mine, kHalf);
            std::memset(mine, -round, kHalf);
          }
          const LockGuard flushes(node, 0);  // its token takes the writes along
        }
        node.barrier();
        for (std::size_t p = 0; p < kPages; ++p) {
          prepare_read(shared + p * 2 * kHalf, 2 * kHalf);
          for (std::size_t i = 0; i < kHalf; i += 64) {
            wrong += shared[p * 2 * kHalf + i] != round;
            wrong += shared[p * 2 * kHalf + kHalf + i] != -round;
          }
        }
        node.barrier();
      }
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

// --- Reports on request

TEST(Quit, EveryProcessReportsTheWaitsOfItsNodesAndContinues) {
  const std::vector<Ending> endings = run_machine({.clusters = 2, .compute = 3}, [] {
    parallel([](Node& node) {
      if (node.id() == 0) {
        node.lock(5);
        node.flag_set(1);
        node.flag_wait(3);
        node.unlock(5);
      } else if (node.id() == 1) {
        node.flag_wait(1);
        node.lock(5);
        node.unlock(5);
      } else if (node.cluster() == 0) {
        node.flag_wait(1);
        ::usleep(200'000);
        ::kill(::getpid(), SIGQUIT);
        ::usleep(200'000);
        node.flag_set(3);
      } else if (node.id() == 4) {
        ::usleep(200'000);
        ::kill(::getpid(), SIGQUIT);
      } else {
        node.semaphore_wait(7);
      }
      if (node.id() == 4) node.semaphore_post(7, 2);
      node.barrier(2);
    });
    return finish(0);
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.exit_status, 0) << ending.text;
  EXPECT_THAT(endings[0].text,
              HasSubstr("braid: compute node 0 waits for flag 3 to be set, which is at cluster 1; it "
                        "has lock(s) 5\n"));
  EXPECT_THAT(endings[0].text,
              HasSubstr("braid: compute node 1 waits for lock 5, which compute node 0 has\n"));
  EXPECT_THAT(endings[0].text, HasSubstr("braid: compute node 2 computes\n"));
}

// --- Invalid calls

TEST(ApiFailure, InvalidCallsAreExplained) {
  const auto alone = [](const std::function<void(Node&)>& body) {
    return run_machine({.clusters = 1, .heap_mib = 1},
                       [&] {
                         parallel(body);
                         return finish(0);
                       })
        .front();
  };
  const auto expect = [](const Ending& ending, const std::string& text) {
    EXPECT_EQ(ending.exit_status, kFailureStatus) << "signal " << ending.signal << ": " << ending.text;
    EXPECT_THAT(ending.text, HasSubstr(text));
  };
  expect(alone([](Node& n) { n.condition_signal(32768); }),
         "condition 32768 does not exist: there are 32768");
  expect(alone([](Node& n) { n.flag_wait(4096); }), "flag 4096 does not exist: there are 4096");
  expect(alone([](Node& n) { n.semaphore_post(4096); }), "semaphore 4096 does not exist: there are 4096");
  expect(alone([](Node& n) { n.fetch_add(4096, 1); }), "word 4096 does not exist: there are 4096");
  expect(alone([](Node& n) { n.reduce(1, Reduce::kSum, 64); }), "barrier 64 does not exist: there are 64");
  expect(alone([](Node& n) { n.condition_wait(1, 2); }),
         "compute node 0 waits for condition 1 with lock 2, which it does not have");
  expect(alone([](Node& n) { n.unlock(3); }), "compute node 0 unlocks lock 3, which it does not have");
  expect(alone([](Node& n) {
           n.lock(3);
           n.lock(3);
         }),
         "compute node 0 locks lock 3, which it has already: locks are not recursive");
  expect(alone([](Node& n) { n.allocate<char>(2 << 20); }),
         "the shared heap of 1 MiB is full: 2097152 bytes were requested, 1048576 are free; raise "
         "BRAID_HEAP_MIB");
  expect(alone([](Node& n) { n.allocate<char>(1, Placement::on(1)); }),
         "called for cluster 1, which does not exist: there are 1");
}

TEST(ApiFailure, SizeThatOverflowsIsExplained) {
  constexpr std::size_t kTooMany = (std::size_t{1} << 61) + 1;  // of 8 bytes: 8 bytes, modulo 2^64
  const auto expect = [](const std::function<void()>& body, const std::string& call) {
    const Ending ending = run_machine({.clusters = 1, .heap_mib = 1}, [&] {
                            body();
                            return finish(0);
                          }).front();
    EXPECT_EQ(ending.exit_status, kFailureStatus) << "signal " << ending.signal << ": " << ending.text;
    EXPECT_THAT(ending.text, HasSubstr(call + " was called for 2305843009213693953 elements of 8 bytes"));
  };
  expect([] { allocate<double>(kTooMany); }, "allocate()");
  expect([] { parallel([](Node& node) { node.allocate<double>(kTooMany); }); }, "allocate()");
  expect([] { braid_allocate_array(kTooMany, sizeof(double), braid_place_block()); }, "allocate()");
  const auto transfer = [](bool out) {
    double own = 0;
    std::FILE* const file = std::tmpfile();
    if (out)
      braid::dsm::fwrite(&own, sizeof own, kTooMany, file);
    else
      braid::dsm::fread(&own, sizeof own, kTooMany, file);
  };
  expect([&] { transfer(false); }, "fread()");
  expect([&] { transfer(true); }, "fwrite()");
}

TEST(ApiFailure, DifferentReductionsAtOneBarrierAreAnError) {
  const std::vector<Ending> endings = run_machine({.clusters = 2}, [] {
    parallel([](Node& node) {
      if (node.cluster() == 0)
        node.reduce(1, Reduce::kSum, 3);
      else
        node.barrier(3);
    });
    return finish(0);
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.exit_status, kFailureStatus) << ending.text;
  EXPECT_THAT(endings[0].text + endings[1].text,
              HasSubstr("barrier 3: compute nodes called different reductions"));
}

TEST(ApiFailure, PointerBehindTheLastAllocationCrashesWithAnExplanation) {
  const Ending ending = run_machine({.clusters = 1}, [] {
                          auto* const data = allocate<volatile char>(4096);
                          data[4095] = 1;
                          return finish(data[4096]);
                        }).front();
  EXPECT_TRUE(crashed(ending)) << ending.exit_status;
  EXPECT_THAT(ending.text, HasSubstr("behind the last allocation of the shared heap"));
}

}  // namespace
}  // namespace braid::dsm
