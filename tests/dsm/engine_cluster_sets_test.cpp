// Sets of clusters that are one word while they are small, and the tree of clusters.
#include "dsm/engine/cluster_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "dsm/engine/cluster_tree.h"

namespace braid::dsm {
namespace {

std::vector<unsigned> members(const ClusterSets& sets, ClusterSet set) {
  std::vector<unsigned> all;
  sets.for_each(set, [&](ClusterId c) { all.push_back(c.value()); });
  return all;
}
std::vector<unsigned> numbers(const std::set<std::uint16_t>& set) {
  return {set.begin(), set.end()};
}

TEST(ClusterSets, SmallSetIsAWordAndALargeOneABlock) {
  ClusterSets sets(1000, 2);
  ClusterSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.single(), std::nullopt);
  sets.add(set, ClusterId(999));
  EXPECT_EQ(set.single(), ClusterId(999));
  EXPECT_TRUE(set.is(ClusterId(999)));
  EXPECT_FALSE(set.is(ClusterId(0)));
  sets.add(set, ClusterId(0));
  sets.add(set, ClusterId(500));
  EXPECT_EQ(members(sets, set), (std::vector<unsigned>{0, 500, 999}));
  EXPECT_EQ(set.single(), std::nullopt);
  EXPECT_EQ(sets.pool_bytes(), 0u);
  sets.add(set, ClusterId(64));
  EXPECT_EQ(members(sets, set), (std::vector<unsigned>{0, 64, 500, 999}));
  EXPECT_EQ(sets.large(), 1u);
  sets.remove(set, ClusterId(500));
  EXPECT_EQ(members(sets, set), (std::vector<unsigned>{0, 64, 999}));
  EXPECT_EQ(sets.large(), 0u) << "it is a word again";
}

TEST(ClusterSets, BlockThatIsGivenBackIsUsedAgain) {
  ClusterSets sets(100, 1);
  std::size_t bytes = 0;
  for (int round = 0; round < 10; ++round) {
    ClusterSet set;
    for (std::uint16_t c = 0; c < 100; ++c) sets.add(set, ClusterId(c));
    EXPECT_EQ(sets.size(set), 100u);
    if (round == 0) bytes = sets.pool_bytes();
    sets.clear(set);
    EXPECT_TRUE(set.empty());
  }
  EXPECT_EQ(sets.pool_bytes(), bytes);
}

TEST(ClusterSets, ExchangeMovesASetAndCopyMakesAnother) {
  ClusterSets sets(100, 2);
  ClusterSet from;
  for (std::uint16_t c = 10; c < 20; ++c) sets.add(from, ClusterId(c));
  ClusterSet moved = std::exchange(from, {});
  EXPECT_TRUE(from.empty());
  ClusterSet copied = sets.copy(moved);
  sets.remove(copied, ClusterId(10));
  EXPECT_EQ(sets.size(moved), 10u);
  EXPECT_EQ(sets.size(copied), 9u);
  EXPECT_TRUE(sets.contains(moved, ClusterId(10)));
}

// Many sets of one pool, whose members come and go.
TEST(ClusterSets, HoldWhatWasAddedAndNotRemoved) {
  constexpr std::uint64_t kSeed = 7;
  for (const unsigned clusters : {2u, 3u, 4u, 64u, 65u, 1024u}) {
    Prng random(kSeed);
    ClusterSets sets(clusters, 20);
    std::vector<ClusterSet> all(20);
    std::vector<std::set<std::uint16_t>> expected(20);
    for (int step = 0; step < 20'000; ++step) {
      const std::size_t i = random.below(all.size());
      const auto c = static_cast<std::uint16_t>(random.below(clusters));
      // Some sets are mostly small.
      if (random.chance(i % 2 == 0 ? 0.5 : 0.35)) {
        sets.add(all[i], ClusterId(c));
        expected[i].insert(c);
      } else if (!expected[i].empty() && random.chance(0.8)) {
        const auto one = expected[i].lower_bound(c);
        const std::uint16_t member = one == expected[i].end() ? *expected[i].begin() : *one;
        sets.remove(all[i], ClusterId(member));
        expected[i].erase(member);
      } else if (random.chance(0.02)) {
        sets.clear(all[i]);
        expected[i].clear();
      }
      ASSERT_EQ(members(sets, all[i]), numbers(expected[i])) << clusters << " clusters, step " << step;
      ASSERT_EQ(sets.size(all[i]), expected[i].size());
      ASSERT_EQ(sets.contains(all[i], ClusterId(c)), expected[i].contains(c));
      ASSERT_EQ(all[i].empty(), expected[i].empty());
      ASSERT_EQ(all[i].single().has_value(), expected[i].size() == 1);
    }
    const auto large = std::ranges::count_if(expected, [](const auto& set) { return set.size() > 3; });
    EXPECT_EQ(sets.large(), static_cast<std::size_t>(large));
  }
}

TEST(ClusterTree, EveryClusterIsBelowTheRootOnce) {
  for (const std::uint32_t fan_out : {1u, 2u, 8u, 1000u}) {
    for (const auto clusters : std::to_array<std::uint16_t>({1, 2, 9, 300})) {
      const ClusterId root(static_cast<std::uint16_t>(clusters / 2));
      std::set<std::uint16_t> below;
      for (std::uint16_t c = 0; c < clusters; ++c) {
        const ClusterTree tree({.cluster = ClusterId(c), .clusters = clusters, .barrier_fan_out = fan_out});
        EXPECT_LE(tree.children(root), ClusterTree::kMaxFanOut);
        for (std::uint32_t i = 0; i < tree.children(root); ++i) {
          const ClusterId child = tree.child(root, i);
          EXPECT_TRUE(below.insert(child.value()).second) << child.value() << " has two parents";
          EXPECT_EQ(tree.which_child(root, child), i);
          EXPECT_EQ(
              ClusterTree({.cluster = child, .clusters = clusters, .barrier_fan_out = fan_out}).parent(root),
              ClusterId(c));
        }
        EXPECT_GE(tree.which_child(root, root), tree.children(root)) << "the root is nobody's child";
      }
      EXPECT_EQ(below.size(), clusters - 1u);
      EXPECT_FALSE(below.contains(root.value()));
    }
  }
}

}  // namespace
}  // namespace braid::dsm
