#include "sim/shell_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <tuple>
#include <vector>

#include "tests/dsm/page_bytes.h"
#include "tests/sim/fake_shell.h"

namespace braid::sim {
namespace {

using testing::ElementsAre;
using Pages = std::tuple<std::uint32_t, std::uint32_t, dsm::Access>;

std::vector<Pages> runs_of(const Control& control) {
  std::vector<Pages> runs;
  for (std::uint32_t i = 0; i < control.protection_runs; ++i) {
    const ProtectionRun& run = control.protections[i];
    runs.emplace_back(run.first, run.count, run.access);
  }
  return runs;
}

TEST(ShellTurns, NextTurnHasProtectionsInOrderWithAdjacentPagesMerged) {
  FakeShell shell(3);
  ShellTurns turns(shell, 3, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  turns.protect(PageId(4), 1, dsm::Access::kRead);
  turns.protect(PageId(5), 2, dsm::Access::kRead);
  turns.protect(PageId(7), 1, dsm::Access::kWrite);
  turns.protect(PageId(4), 1, dsm::Access::kNone);
  std::vector<Pages> seen;
  shell.on_turn = [&](Control& control) { seen = runs_of(control); };
  ASSERT_TRUE(turns.run(100, 9).ok());
  EXPECT_THAT(seen, ElementsAre(Pages(4, 3, dsm::Access::kRead), Pages(7, 1, dsm::Access::kWrite),
                                Pages(4, 1, dsm::Access::kNone)));
  EXPECT_EQ(shell.control().allocated_pages, 9u);
  EXPECT_EQ(turns.protections(), 4u);
  ASSERT_TRUE(turns.run(100, 9).ok());
  EXPECT_THAT(seen, ElementsAre());
  EXPECT_EQ(turns.hand_overs(), 2u);
}

TEST(ShellTurns, PagesHaveTheirFirstContentsOnceTheyAreUsed) {
  constexpr std::uint32_t kPages = 100;
  FakeShell shell(1, kPages);
  ShellTurns turns(shell, 1, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  const auto value = [&](std::uint32_t page) {
    return static_cast<int>(shell.heap()[std::size_t{page} * dsm::kPageBytes + 5]);
  };
  for (std::uint32_t p = 0; p < 90; ++p) shell.begin_with(p, std::byte{7});
  // What a node may access.
  turns.protect(PageId(3), 2, dsm::Access::kNone);
  EXPECT_EQ(value(3), 0);
  turns.protect(PageId(3), 2, dsm::Access::kRead);
  EXPECT_EQ(std::vector({value(2), value(3), value(4), value(5)}), std::vector({0, 7, 7, 0}));
  // What the engine uses, and what it may use through the same address: copies that it writes there stay.
  std::byte* const run = turns.page(PageId(40));
  EXPECT_EQ(std::vector({value(39), value(40), value(41)}), std::vector({0, 7, 7}));
  std::fill_n(run, 2 * dsm::kPageBytes, std::byte{9});
  turns.protect(PageId(40), 2, dsm::Access::kRead);
  (void)turns.page(PageId(41));
  EXPECT_EQ(std::vector({value(40), value(41)}), std::vector({9, 9}));
  // More contents may come; beyond them pages begin with zeros.
  (void)turns.page(PageId(95));
  EXPECT_EQ(value(95), 0);
  shell.begin_with(92, std::byte{8});
  (void)turns.page(PageId(89));
  EXPECT_EQ(std::vector({value(89), value(92), value(93)}), std::vector({7, 8, 0}));
}

TEST(ShellTurns, ExcessProtectionsAreAppliedInTurnsWithoutRunningNodes) {
  constexpr std::uint32_t kRuns = 2 * kMaxProtectionRuns + 1;
  FakeShell shell(1);
  ShellTurns turns(shell, 1, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  for (std::uint32_t i = 0; i < kRuns; ++i) turns.protect(PageId(2 * i), 1, dsm::Access::kRead);
  shell.set_node(0, 10, true);
  std::vector<std::uint32_t> counts;
  std::vector<std::int64_t> untils;
  std::uint32_t next = 0;
  shell.on_turn = [&](Control& control) {
    counts.push_back(control.protection_runs);
    untils.push_back(control.until);
    for (std::uint32_t i = 0; i < control.protection_runs; ++i, ++next)
      EXPECT_EQ(control.protections[i].first, 2 * next);
  };
  ASSERT_TRUE(turns.run(50, 1).ok());
  constexpr std::int64_t kBefore = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(counts, ElementsAre(kMaxProtectionRuns, kMaxProtectionRuns, 1));
  EXPECT_THAT(untils, ElementsAre(kBefore, kBefore, 50));
}

TEST(ShellTurns, CallbackReportsProtectionsExceptOpeningForWrites) {
  FakeShell shell(1);
  std::vector<Pages> closed;
  ShellTurns turns(shell, 1, dsm::PageLength(), [&](PageId first, std::uint32_t count, dsm::Access access) {
    closed.emplace_back(first.value(), count, access);
  });
  turns.protect(PageId(1), 2, dsm::Access::kRead);
  turns.protect(PageId(3), 4, dsm::Access::kWrite);
  turns.protect(PageId(5), 1, dsm::Access::kNone);
  EXPECT_THAT(closed, ElementsAre(Pages(1, 2, dsm::Access::kRead), Pages(5, 1, dsm::Access::kNone)));
}

TEST(ShellTurns, ClockIsTheEarliestRunnableNodes) {
  FakeShell shell(3);
  ShellTurns turns(shell, 3, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  EXPECT_EQ(turns.clock(), ClockRate::kNever);
  shell.set_node(0, 5, false);
  shell.set_node(1, 30, true);
  shell.set_node(2, 20, true);
  EXPECT_EQ(turns.clock(), 20);
}

TEST(ShellTurns, TurnIsLimitedToTheLongestTurn) {
  FakeShell shell(1);
  ShellTurns turns(shell, 1, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  shell.set_node(0, 7, true);
  ASSERT_TRUE(turns.run(ClockRate::kNever - 1, 1).ok());
  EXPECT_EQ(shell.control().until, 7 + ShellTurns::kLongestTurn);
}

TEST(ShellTurns, RunReturnsTheRequestingNode) {
  FakeShell shell(2);
  ShellTurns turns(shell, 2, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  EXPECT_EQ(*turns.run(10, 1), Control::kNobody);
  shell.on_turn = [](Control& control) { control.asking = 1; };
  EXPECT_EQ(*turns.run(10, 1), 1u);
  shell.on_turn = [](Control& control) { control.asking = 2; };
  const Result<std::uint32_t> wrong = turns.run(10, 1);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().text, testing::HasSubstr("names compute node 2: there are 2"));
}

TEST(ShellTurns, PreparedTurnHasItsProtectionsAndCountsWhenItIsOver) {
  FakeShell shell(1);
  ShellTurns turns(shell, 1, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  shell.set_node(0, 7, true);
  turns.protect(PageId(3), 2, dsm::Access::kRead);
  EXPECT_EQ(turns.prepare(10, 5), std::nullopt) << "this shell does not pass the baton on";
  shell.can_pass_on = true;
  EXPECT_EQ(turns.prepare(10, 5), 10);
  EXPECT_EQ(shell.control().allocated_pages, 5u);
  EXPECT_EQ(shell.control().next, Control::kEngine);
  turns.pass_on_to(2);
  EXPECT_EQ(shell.control().next, 2);
  // It had no turn, and is prepared again: nothing is lost.
  EXPECT_EQ(turns.prepare(ClockRate::kNever - 1, 6), 7 + ShellTurns::kLongestTurn);
  EXPECT_EQ(shell.control().next, Control::kEngine);
  ASSERT_EQ(shell.control().protection_runs, 1u);
  EXPECT_EQ(shell.control().protections[0].first, 3u);
  EXPECT_EQ(turns.hand_overs(), 0u);
  shell.control().asking = 0;
  EXPECT_EQ(*turns.end(), 0u);
  EXPECT_EQ(turns.hand_overs(), 1u);
  EXPECT_EQ(turns.prepare(10, 6), 10);
  EXPECT_EQ(shell.control().protection_runs, 0u);
  EXPECT_EQ(*turns.end(), Control::kNobody);
  // More than a turn takes.
  for (std::uint32_t i = 0; i <= kMaxProtectionRuns; ++i) turns.protect(PageId(2 * i), 1, dsm::Access::kRead);
  EXPECT_EQ(turns.prepare(10, 6), std::nullopt);
}

TEST(ShellTurns, RunAloneSuspendsTheOtherNodesForOneTurn) {
  FakeShell shell(3);
  ShellTurns turns(shell, 3, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  shell.set_node(0, 5, true);
  shell.set_node(1, 9, true);
  std::vector<bool> runnable;
  shell.on_turn = [&](Control& control) {
    for (unsigned n = 0; n < 3; ++n) runnable.push_back(control.nodes[n].runnable);
  };
  ASSERT_TRUE(turns.run_alone(1, 10, 1).ok());
  EXPECT_THAT(runnable, ElementsAre(false, true, false));
  EXPECT_TRUE(shell.node(0).runnable);
  EXPECT_FALSE(shell.node(2).runnable);
}

TEST(ShellTurns, EndOfTheProgramIsReturnedAsError) {
  FakeShell shell(1);
  ShellTurns turns(shell, 1, dsm::PageLength(), [](PageId, std::uint32_t, dsm::Access) {});
  shell.end = "ended";
  const Result<std::uint32_t> ran = turns.run(10, 1);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().text, "ended");
}

}  // namespace
}  // namespace braid::sim
