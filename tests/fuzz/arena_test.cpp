// The fuzzers' arena: a world is the same for every input, and what an input allocated is gone.
#include "tests/fuzz/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace braid::fuzz {
namespace {

struct World {
  World() {
    for (int i = 0; i < 100; ++i) names[i] = std::string(40, static_cast<char>('a' + i % 26));
  }
  std::map<int, std::string> names;
  std::vector<int> numbers = std::vector<int>(5000, 7);
  std::unique_ptr<std::byte[]> large{
      new std::byte[1 << 20]{}};  // untouched memory, which is restored in another way
  int runs = 0;
};

bool is_as_built(const World& world) {
  if (world.runs != 0 || world.names.size() != 100 || world.numbers != std::vector<int>(5000, 7))
    return false;
  for (const auto& [i, name] : world.names)
    if (name != std::string(40, static_cast<char>('a' + i % 26))) return false;
  return std::all_of(world.large.get(), world.large.get() + (1 << 20),
                     [](std::byte b) { return b == std::byte{0}; });
}

TEST(Arena, EveryRunSeesTheWorldAsItWasBuilt) {
  Arena& arena = Arena::instance();
  std::vector<const void*> places;
  std::size_t used = 0;
  for (int run = 0; run < 50; ++run) {
    with_restored<World>([&](World& world) {
      EXPECT_TRUE(is_as_built(world)) << run;
      // Blocks of the world are changed, released and replaced; new ones appear.
      world.runs = 1;
      world.names.erase(run);
      world.names[1000] = std::string(100, 'x');
      world.names[50] += std::string(200, 'y');
      world.numbers.clear();
      world.numbers.shrink_to_fit();
      world.numbers.assign(20'000, run);
      std::memset(world.large.get() + run * 4096, 0x5c, 10'000);
      const auto block = std::make_unique<int>(run);
      {
        const Arena::Pause pause;
        places.push_back(block.get());
      }
      used = std::max(used, arena.used_bytes());
    });
    EXPECT_EQ(arena.used_bytes(), arena.kept_bytes());
  }
  // The same operations get the same addresses: an order by address depends on the input alone.
  EXPECT_TRUE(std::all_of(places.begin() + 1, places.end(), [&](const void* p) { return arena.owns(p); }));
  EXPECT_GT(used, arena.kept_bytes());
}

TEST(Arena, MemoryOutsideIsRestoredToo) {
  Arena& arena = Arena::instance();
  static std::byte outside[5000];  // until the program ends
  std::memset(outside, 1, sizeof outside);
  arena.add(outside, sizeof outside);
  {
    const Arena::Use use;
    arena.keep();
  }
  outside[0] = outside[4999] = std::byte{2};
  arena.restore();
  EXPECT_TRUE(
      std::all_of(std::begin(outside), std::end(outside), [](std::byte b) { return b == std::byte{1}; }));
}

TEST(Arena, ReleasedBlocksAreUsedAgainButNotAtOnce) {
  Arena& arena = Arena::instance();
  with_arena([&] {
    std::byte* const first = new std::byte[48];
    delete[] first;
    int until = 0;
    for (; until < 1000; ++until) {
      std::byte* const block = new std::byte[48];
      const bool same = block == first;
      delete[] block;
      if (same) break;
    }
    EXPECT_GT(until, 10);
    EXPECT_LT(until, 1000);
  });
  EXPECT_EQ(arena.used_bytes(), arena.kept_bytes());
}

TEST(Arena, AlignsBlocks) {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  with_arena([] {
    for (int i = 0; i < 20; ++i) {
      const std::vector<std::byte> odd(static_cast<std::size_t>(i) * 7 + 1);
      const auto line = std::make_unique<Line>();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(line.get()) % 64, 0u);
    }
  });
}

}  // namespace
}  // namespace braid::fuzz
