#include "base/parallel_time.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

constexpr Instant at(std::int64_t us) {
  return Instant::from_ns(us * 1000);
}

TEST(ParallelTime, LastsUntilTheLastNodeHasLeft) {
  ParallelTime time;
  EXPECT_FALSE(time.is_running());
  time.enter(at(100), 3);
  EXPECT_TRUE(time.is_running());
  EXPECT_EQ(time.began(), at(100));
  // Nodes may be told of in another order than that of their times.
  EXPECT_FALSE(time.leave(at(170)));
  EXPECT_FALSE(time.leave(at(150)));
  EXPECT_TRUE(time.is_running());
  EXPECT_EQ(time.total(), Duration());
  EXPECT_TRUE(time.leave(at(160)));
  EXPECT_FALSE(time.is_running());
  EXPECT_EQ(time.last_left(), at(170));
  EXPECT_EQ(time.total(), 70_us);
}

TEST(ParallelTime, SumsAllParallelSections) {
  ParallelTime time;
  time.enter(at(0), 1);
  EXPECT_TRUE(time.leave(at(10)));
  time.enter(at(100), 1);
  EXPECT_EQ(time.began(), at(100));
  EXPECT_EQ(time.last_left(), at(100));
  EXPECT_TRUE(time.leave(at(105)));
  EXPECT_EQ(time.total(), 15_us);
}

TEST(ParallelTime, CountsFromItsRestartOn) {
  ParallelTime time;
  time.enter(at(0), 2);
  EXPECT_FALSE(time.leave(at(10)));
  time.restart(at(30));
  EXPECT_EQ(time.began(), at(30));
  EXPECT_TRUE(time.leave(at(35)));
  EXPECT_EQ(time.total(), 5_us);
}

}  // namespace
}  // namespace braid
