#include "sim/phase_history.h"

#include <gtest/gtest.h>

#include <numeric>

namespace braid::sim {
namespace {

std::vector<std::uint64_t> of_kind(const PhaseHistory& history, std::size_t kind) {
  std::vector<std::uint64_t> counts;
  for (const PhaseHistory::Counts& entry : history.entries()) counts.push_back(entry[kind]);
  return counts;
}

TEST(PhaseHistory, CountsByPhaseAndKind) {
  PhaseHistory history;
  history.add(0, 2, 5);
  history.add(2, 2, 1);
  history.add(2, 2, 1);
  history.add(1, 4, 7);
  EXPECT_EQ(history.phases_each(), 1u);
  EXPECT_EQ(of_kind(history, 2), (std::vector<std::uint64_t>{5, 0, 2}));
  EXPECT_EQ(of_kind(history, 4), (std::vector<std::uint64_t>{0, 7, 0}));
}

TEST(PhaseHistory, PairsAreMergedWhenEntriesRunOut) {
  PhaseHistory history;
  for (std::uint64_t phase = 0; phase <= PhaseHistory::kEntries; ++phase) history.add(phase, 0, phase);
  EXPECT_EQ(history.phases_each(), 2u);
  const std::vector<std::uint64_t> counts = of_kind(history, 0);
  ASSERT_EQ(counts.size(), PhaseHistory::kEntries / 2 + 1);
  for (std::size_t i = 0; i + 1 < counts.size(); ++i) EXPECT_EQ(counts[i], 4 * i + 1);
  EXPECT_EQ(counts.back(), PhaseHistory::kEntries);
}

TEST(PhaseHistory, APhaseFarAwayMergesAsOftenAsItTakes) {
  PhaseHistory history;
  history.add(0, 0, 1);
  history.add(1'000'000, 0, 2);
  EXPECT_LE(history.entries().size(), PhaseHistory::kEntries);
  const std::vector<std::uint64_t> counts = of_kind(history, 0);
  EXPECT_EQ(counts.front(), 1u);
  EXPECT_EQ(counts[1'000'000 / history.phases_each()], 2u);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), 3u);
}

TEST(PhaseHistory, TheSumOfTwoHasTheWiderPhases) {
  PhaseHistory wide, narrow;
  wide.add(PhaseHistory::kEntries, 1, 3);
  narrow.add(3, 1, 4);
  for (const bool wide_first : {true, false}) {
    PhaseHistory sum;
    sum.add(wide_first ? wide : narrow);
    sum.add(wide_first ? narrow : wide);
    EXPECT_EQ(sum.phases_each(), 2u);
    EXPECT_EQ(of_kind(sum, 1)[1], 4u);
    EXPECT_EQ(of_kind(sum, 1)[PhaseHistory::kEntries / 2], 3u);
  }
}

}  // namespace
}  // namespace braid::sim
