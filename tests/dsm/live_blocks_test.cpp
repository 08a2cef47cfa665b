// shared_malloc() and so on, on whole machines: a process for each cluster, connected by sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dsm/api.h"
#include "dsm/program/failure.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

class SharedMalloc : public testing::TestWithParam<LiveMachine> {};
INSTANTIATE_TEST_SUITE_P(Shapes, SharedMalloc,
                         testing::Values(LiveMachine{.clusters = 1, .compute = 3},
                                         LiveMachine{.clusters = 2, .compute = 2},
                                         LiveMachine{.clusters = 3, .compute = 1, .order = Order::kShuffled}),
                         [](const auto& shape) { return shape_of(shape.param); });

// A block and its contents: `bytes` bytes that follow from `first`.
struct Slot {
  unsigned char* block;
  std::size_t bytes;
  unsigned char first;
};

void write(Slot& slot) {
  for (std::size_t i = 0; i < slot.bytes; ++i) slot.block[i] = static_cast<unsigned char>(slot.first + i * 7);
}
std::size_t wrong(const Slot& slot, std::size_t bytes) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    n += slot.block[i] != static_cast<unsigned char>(slot.first + i * 7);
  return n;
}

std::size_t random_size(std::mt19937& random) {
  switch (random() % 8) {
    case 0:
      return random() % 8;
    case 1:
      return 2000 + random() % 5000;
    case 2:
      return 31'000 + random() % 9000;
    default:
      return random() % 700;
  }
}

TEST_P(SharedMalloc, BlocksOfAllNodesKeepTheirContents) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    expect_runs(GetParam(), [seed] {
      constexpr unsigned kSlots = 48, kSteps = 400;
      auto* const slots = allocate<Slot>(kSlots);
      std::size_t all_wrong = 0;
      parallel([&](Node& node) {
        std::mt19937 random(seed * 1000 + node.id());
        std::size_t wrongs = 0;
        for (unsigned step = 0; step < kSteps; ++step) {
          const auto at = static_cast<unsigned>(random() % kSlots);
          const LockGuard guard(node, at);
          Slot& slot = slots[at];
          if (slot.block == nullptr) {
            const std::size_t bytes = random_size(random);
            const bool zeroed = random() % 4 == 0;
            slot = {
                .block = static_cast<unsigned char*>(zeroed ? shared_calloc(1, bytes) : shared_malloc(bytes)),
                .bytes = bytes,
                .first = static_cast<unsigned char>(random())};
            const auto address = reinterpret_cast<std::uintptr_t>(slot.block);
            wrongs += address % (bytes >= 32 << 10 ? 4096 : bytes > 2048 ? 64 : 16) != 0;
            if (zeroed)
              for (std::size_t i = 0; i < bytes; ++i) wrongs += slot.block[i] != 0;
            write(slot);
            continue;
          }
          wrongs += wrong(slot, slot.bytes);
          if (random() % 3 == 0) {
            const std::size_t bytes = 1 + random_size(random);
            slot.block = static_cast<unsigned char*>(shared_realloc(slot.block, bytes));
            wrongs += wrong(slot, std::min(bytes, slot.bytes));
            slot.bytes = bytes;
            write(slot);
          } else {
            shared_free(slot.block);
            slot = {};
          }
        }
        const std::size_t sum = node.reduce(wrongs);
        if (node.local() == 0) all_wrong = sum;
      });
      if (all_wrong != 0) std::fprintf(stderr, "%zu wrong bytes\n", all_wrong);
      return all_wrong == 0 ? 0 : 1;
    });
  }
}

// 10 MB of blocks go through a heap of 4 MiB: node 0 allocates, the last node frees.
TEST_P(SharedMalloc, BlocksThatAnotherNodeFreesAreUsedAgain) {
  expect_runs(GetParam(), [] {
    constexpr unsigned kBlocks = 5000, kRounds = 20, kBytes = 100;
    auto** const blocks = allocate<unsigned*>(kBlocks);
    std::size_t all_wrong = 0;
    parallel([&](Node& node) {
      std::size_t wrongs = 0;
      for (unsigned round = 0; round < kRounds; ++round) {
        if (node.id() == 0) {
          for (unsigned i = 0; i < kBlocks; ++i) {
            blocks[i] = static_cast<unsigned*>(shared_malloc(kBytes));
            blocks[i][0] = round;
            blocks[i][kBytes / 4 - 1] = i;
          }
        }
        node.barrier();
        if (node.id() == node.count() - 1) {
          for (unsigned i = 0; i < kBlocks; ++i) {
            wrongs += blocks[i][0] != round || blocks[i][kBytes / 4 - 1] != i;
            shared_free(blocks[i]);
          }
        }
        node.barrier();
      }
      const std::size_t sum = node.reduce(wrongs);
      if (node.local() == 0) all_wrong = sum;
    });
    return all_wrong == 0 ? 0 : 1;
  });
}

// Pages of one size serve another, and neighbours are joined.
TEST(SharedMallocAlone, PagesServeOtherSizesWhenTheirBlocksAreFree) {
  expect_runs({.clusters = 1, .compute = 1}, [] {
    parallel([](Node&) {
      for (const std::size_t bytes :
           {std::size_t{24}, std::size_t{1000}, std::size_t{40'000}, std::size_t{2'000'000}}) {
        std::vector<void*> blocks;
        for (std::size_t i = 0; i < 2'000'000 / bytes; ++i) blocks.push_back(shared_malloc(bytes));
        if (std::set<void*>(blocks.begin(), blocks.end()).size() != blocks.size()) std::_Exit(1);
        for (void* const block : blocks) shared_free(block);
      }
    });
    return 0;
  });
}

TEST(SharedMallocAlone, ASmallerSizeStaysInPlace) {
  expect_runs({.clusters = 1, .compute = 1}, [] {
    bool right = false;
    parallel([&](Node&) {
      void* const block = shared_malloc(1000);
      right = shared_realloc(block, 900) == block && shared_realloc(block, 100) != block;
      right = right && shared_realloc(shared_realloc(nullptr, 5), 0) == nullptr;
      shared_free(nullptr);
    });
    return right ? 0 : 1;
  });
}

std::string text_of(unsigned clusters, const std::function<void(Node&)>& body) {
  std::string text;
  for (const Ending& ending : run_machine({.clusters = clusters}, [&] {
         parallel(body);
         return 0;
       })) {
    if (ending.exit_status == kFailureStatus) text += ending.text;
  }
  return text;
}

TEST(SharedMallocMisuse, ASecondFreeIsNamed) {
  EXPECT_THAT(
      text_of(1,
              [](Node&) {
                void* const block = shared_malloc(40);
                shared_free(block);
                shared_free(block);
              }),
      testing::ContainsRegex("free\\(\\) of shared memory in .* at live_blocks_test.cpp:[0-9]+: the block "
                             "0x[0-9a-f]+ is free already"));
}

TEST(SharedMallocMisuse, ASecondFreeByAnotherClusterIsNamedByTheOwner) {
  EXPECT_THAT(text_of(2,
                      [](Node& node) {
                        if (node.id() == 0)
                          node.store(1, reinterpret_cast<std::int64_t>(shared_malloc(40'000)));
                        node.barrier();
                        if (node.id() == 1)
                          for (int i = 0; i < 64; ++i)
                            shared_free(reinterpret_cast<void*>(node.load(1)));  // NOLINT
                        node.barrier();
                        if (node.id() == 0)
                          for (int i = 0; i < 100; ++i) (void)shared_malloc(40'000);
                        node.barrier();
                      }),
              HasSubstr("is free already; free it once only"));
}

TEST(SharedMallocMisuse, PointersThatAreNoBlocksAreNamed) {
  static int mine;
  const auto none = testing::ContainsRegex(
      "free\\(\\) of shared memory in .* at live_blocks_test.cpp:[0-9]+: 0x[0-9a-f]+ is no block that "
      "malloc\\(\\) of shared memory has returned");
  EXPECT_THAT(text_of(1, [](Node&) { shared_free(&mine); }), none);
  EXPECT_THAT(text_of(1, [](Node&) { shared_free(static_cast<char*>(shared_malloc(40)) + 8); }), none);
  EXPECT_THAT(text_of(1, [](Node&) { shared_free(static_cast<char*>(shared_malloc(100'000)) + 4096); }),
              none);
  EXPECT_THAT(text_of(1, [](Node& node) { shared_free(node.allocate<char>(40)); }), none);
  EXPECT_THAT(text_of(1, [](Node& node) { shared_free(node.allocate<char>(40) + 4096); }), none);
}

TEST(SharedMallocMisuse, SizesThatNoHeapHasAreNamed) {
  EXPECT_THAT(text_of(1, [](Node&) { shared_malloc(SIZE_MAX - 5); }),
              HasSubstr("the shared heap of 4 MiB is full"));
  EXPECT_THAT(text_of(1, [](Node&) { shared_malloc(4 << 20); }),
              HasSubstr("the shared heap of 4 MiB is full"));
  EXPECT_THAT(text_of(1, [](Node&) { shared_calloc(SIZE_MAX / 2, 3); }),
              HasSubstr("exceeds the address space"));
}

TEST(SharedMallocMisuse, OutsideParallelItIsRefused) {
  const std::vector<Ending> endings = run_machine({.clusters = 1}, [] {
    shared_malloc(40);
    return 0;
  });
  EXPECT_EQ(endings[0].exit_status, kFailureStatus);
  EXPECT_THAT(endings[0].text, HasSubstr("malloc() of shared memory was called outside parallel()"));
}

}  // namespace
}  // namespace braid::dsm
