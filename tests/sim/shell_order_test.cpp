#include <gtest/gtest.h>

#include <memory>

#include "sim/shell/node_order.h"

namespace braid::sim {
namespace {

struct Fixture {
  explicit Fixture(unsigned compute) { control->compute = static_cast<std::uint16_t>(compute); }
  void set(unsigned node, std::int64_t clock, bool runnable = true) {
    control->nodes[node].clock = clock;
    control->nodes[node].runnable = runnable;
  }
  const std::unique_ptr<Control> control = std::make_unique<Control>();
};

TEST(NodeOrder, EarliestClockRunsNext) {
  Fixture f(3);
  f.control->until = 100;
  f.set(0, 30);
  f.set(1, 10);
  f.set(2, 20);
  EXPECT_EQ(next_node(*f.control), 1u);
}

TEST(NodeOrder, LowerNumberRunsFirstAtEqualClocks) {
  Fixture f(3);
  f.control->until = 100;
  f.set(0, 30);
  f.set(1, 10);
  f.set(2, 10);
  EXPECT_EQ(next_node(*f.control), 1u);
}

TEST(NodeOrder, WaitingNodesAreSkipped) {
  Fixture f(2);
  f.control->until = 100;
  f.set(0, 30);
  f.set(1, 10, false);
  EXPECT_EQ(next_node(*f.control), 0u);
  EXPECT_EQ(end_of_run(*f.control, 0), 100);
}

TEST(NodeOrder, NoNodeRunsAtOrAfterTheWindowsEnd) {
  Fixture f(2);
  f.control->until = 100;
  f.set(0, 100);
  f.set(1, 101);
  EXPECT_EQ(next_node(*f.control), Control::kNobody);
  f.set(1, 99);
  EXPECT_EQ(next_node(*f.control), 1u);
}

TEST(NodeOrder, NodesAboveTheConfiguredCountAreIgnored) {
  Fixture f(1);
  f.control->until = 100;
  f.set(0, 50);
  f.set(1, 10);
  EXPECT_EQ(next_node(*f.control), 0u);
  EXPECT_EQ(end_of_run(*f.control, 0), 100);
}

TEST(NodeOrder, RunEndsAQuantumAheadOfTheNextNode) {
  Fixture f(3);
  f.control->until = 1000;
  f.control->quantum = 40;
  f.set(0, 10);
  f.set(1, 25);
  f.set(2, 30);
  EXPECT_EQ(end_of_run(*f.control, 0), 65);
}

// With a quantum of 1 the order is that of clocks and numbers.
TEST(NodeOrder, RunEndsACycleEarlierIfTheOtherNumberIsLower) {
  Fixture f(2);
  f.control->until = 1000;
  f.set(0, 10);
  f.set(1, 10);
  EXPECT_EQ(end_of_run(*f.control, 0), 11);
  EXPECT_EQ(end_of_run(*f.control, 1), 10);
}

TEST(NodeOrder, RunEndsAtTheWindowsEndAtTheLatest) {
  Fixture f(2);
  f.control->until = 50;
  f.control->quantum = 100;
  f.set(0, 10);
  f.set(1, 20);
  EXPECT_EQ(end_of_run(*f.control, 0), 50);
}

}  // namespace
}  // namespace braid::sim
