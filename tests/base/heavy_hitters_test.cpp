#include "base/heavy_hitters.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/ids.h"

namespace braid {
namespace {

struct Calls {
  unsigned count = 0;
};
using Small = HeavyHitters<PageId, Calls, 1, 4>;

TEST(HeavyHitters, AreExactWhileThereAreEntries) {
  Small hitters;
  for (std::uint32_t page = 0; page < 4; ++page) ++hitters.add(PageId(page), 10 * (page + 1)).count;
  ++hitters.add(PageId(0), 100).count;
  const auto heaviest = hitters.heaviest(3);
  ASSERT_EQ(heaviest.size(), 3u);
  EXPECT_EQ(heaviest[0].key, PageId(0));
  EXPECT_EQ(heaviest[0].weight, 110u);
  EXPECT_EQ(heaviest[0].value.count, 2u);
  EXPECT_EQ(heaviest[1].key, PageId(3));
  EXPECT_EQ(heaviest[2].key, PageId(2));
  for (const auto& entry : heaviest) EXPECT_EQ(entry.inherited, 0u);
}

TEST(HeavyHitters, NewKeyTakesTheLightestEntryAndSaysWhatItInherited) {
  Small hitters;
  for (std::uint32_t page = 0; page < 4; ++page) ++hitters.add(PageId(page), 10 * (page + 1)).count;
  EXPECT_EQ(++hitters.add(PageId(9), 5).count, 1u);
  const auto heaviest = hitters.heaviest(4);
  EXPECT_EQ(heaviest[3].key, PageId(9));
  EXPECT_EQ(heaviest[3].weight, 15u);
  EXPECT_EQ(heaviest[3].inherited, 10u);
}

TEST(HeavyHitters, WeightOfZeroCountsAsOne) {
  Small hitters;
  hitters.add(PageId(7), 0);
  ASSERT_EQ(hitters.heaviest(9).size(), 1u);
  EXPECT_EQ(hitters.heaviest(9)[0].weight, 1u);
}

// Whatever the order: no key heavier than the bound is missing, and no weight lies beyond its own uncertainty.
TEST(HeavyHitters, KeepEveryKeyAboveTheBound) {
  constexpr std::size_t kSets = 4, kWays = 8;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    HeavyHitters<PageId, Calls, kSets, kWays> hitters;
    std::map<std::uint32_t, std::uint64_t> own;
    std::array<std::uint64_t, kSets> whole{};
    for (int i = 0; i < 5000; ++i) {
      const std::uint32_t range = random() % 4 == 0 ? 1000 : 12;
      const auto page = static_cast<std::uint32_t>(random() % range);
      const std::uint64_t weight = 1 + random() % 100;
      hitters.add(PageId(page), weight);
      own[page] += weight;
      whole[page % kSets] += weight;
    }
    std::map<std::uint32_t, std::uint64_t> found;
    for (const auto& entry : hitters.heaviest(kSets * kWays)) {
      const std::uint32_t page = entry.key.value();
      found[page] = entry.weight;
      EXPECT_GE(entry.weight, own[page]) << "seed " << seed;
      EXPECT_LE(entry.weight - entry.inherited, own[page]) << "seed " << seed;
    }
    for (const auto& [page, weight] : own) {
      if (weight * kWays > whole[page % kSets]) {
        EXPECT_TRUE(found.contains(page)) << "seed " << seed << " page " << page;
      }
    }
  }
}

}  // namespace
}  // namespace braid
