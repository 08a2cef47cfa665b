// Which host of a run starts which.
#include "tools/braid/run/tree/host_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid::cli {
namespace {

using Starters = std::vector<std::optional<std::size_t>>;
constexpr std::nullopt_t kRun = std::nullopt;

std::size_t longest_path(const Starters& starters) {
  std::vector<std::size_t> steps;
  for (const std::optional<std::size_t>& starter : starters)
    steps.push_back(starter ? steps.at(*starter) + 1 : 1);
  return steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
}

TEST(HostTree, TheRunStartsAllWhereItMay) {
  EXPECT_EQ(starters_of(0, 32), Starters{});
  EXPECT_EQ(starters_of(3, 3), (Starters{kRun, kRun, kRun}));
  EXPECT_EQ(starters_of(3, 0), (Starters{kRun, kRun, kRun}));
}

TEST(HostTree, OthersAreStartedByTheFirstOnesInTurn) {
  EXPECT_EQ(starters_of(7, 2), (Starters{kRun, kRun, 0, 1, 0, 1, 2}));
  EXPECT_EQ(starters_of(3, 1), (Starters{kRun, 0, 1}));
}

TEST(HostTree, NobodyStartsMoreThanItMayAndPathsAreShort) {
  for (const std::size_t hosts : {33u, 40u, 1024u}) {
    const Starters starters = starters_of(hosts, 32);
    ASSERT_EQ(starters.size(), hosts);
    EXPECT_EQ(std::count(starters.begin(), starters.end(), kRun), 32);
    for (std::size_t i = 0; i < hosts; ++i)
      EXPECT_LE(std::count(starters.begin(), starters.end(), std::optional(i)), 32);
    EXPECT_EQ(longest_path(starters), 2);
  }
  EXPECT_EQ(longest_path(starters_of(32 + 32 * 32 + 1, 32)), 3);
}

}  // namespace
}  // namespace braid::cli
