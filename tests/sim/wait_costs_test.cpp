#include "sim/wait_costs.h"

#include <gtest/gtest.h>

namespace braid::sim {
namespace {

TEST(WaitCosts, TheCostliestComesFirstWithItsSumAndItsLongestWait) {
  WaitCosts costs;
  costs.on_page(PageId(3), 10_us);
  costs.on_page(PageId(8), 25_us);
  costs.on_page(PageId(3), 40_us);
  const auto pages = costs.pages();
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_EQ(pages[0].key, PageId(3));
  EXPECT_EQ(pages[0].least(), 50'000u);
  EXPECT_EQ(pages[0].value.count, 2u);
  EXPECT_EQ(pages[0].value.longest, 40_us);
  EXPECT_EQ(pages[1].key, PageId(8));
  EXPECT_TRUE(costs.locks().empty());
}

TEST(WaitCosts, AWaitOfNoTimeIsNone) {
  WaitCosts costs;
  costs.on_lock(dsm::LockId(1), Duration());
  EXPECT_TRUE(costs.locks().empty());
  costs.on_lock(dsm::LockId(1), 1_us);
  ASSERT_EQ(costs.locks().size(), 1u);
  EXPECT_EQ(costs.locks()[0].value.count, 1u);
}

}  // namespace
}  // namespace braid::sim
