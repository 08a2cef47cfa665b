// Which host of a run starts which, and how long each waits for the words of another.
#include "tools/braid/run/tree/host_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/time.h"
#include "tools/braid/run/liveness.h"
#include "tools/braid/run/tree/first_words.h"

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

// Looks as often as the owners do; when it is lost.
Duration lost_after(Liveness& l, Instant from, Duration most, auto&& at_each) {
  for (Instant now = from; now - from < most; now = now + Liveness::kBeat) {
    at_each(now);
    if (l.is_lost(now)) return now - from;
  }
  return most;
}

TEST(HostLiveness, FirstWordMayComeLateAndLaterOnesMayNot) {
  const Instant start = Instant() + 5_s;
  Liveness l;
  l.start(start, kPatience);
  EXPECT_EQ(lost_after(l, start, 90_s, [](Instant) {}), kHostConnects + Liveness::kBeat);
  l.start(start, kPatience);
  l.on_word(start);
  EXPECT_EQ(lost_after(l, start, 90_s, [](Instant) {}), Liveness::kLost + Liveness::kBeat);
}

TEST(HostLiveness, InattentionForgivesSilenceAndTakesNoPatienceAway) {
  const Instant start = Instant() + 5_s;
  Liveness l;
  l.start(start, kPatience);
  EXPECT_EQ(lost_after(l, start, 90_s,
                       [&](Instant now) {
                         if (now - start < 2_s) l.on_inattention(now);
                       }),
            kHostConnects + Liveness::kBeat);
  l.start(start);
  EXPECT_EQ(lost_after(l, start, 90_s,
                       [&](Instant now) {
                         if (now - start <= 20_s) l.on_inattention(now);
                       }),
            20_s + Liveness::kLost + Liveness::kBeat);
}

}  // namespace
}  // namespace braid::cli
