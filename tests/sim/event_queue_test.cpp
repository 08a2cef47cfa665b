// Virtual time: events come out by time, and by insertion where times are equal.
#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "base/prng.h"

namespace braid::sim {
namespace {

constexpr Instant at(Duration since_start) {
  return Instant() + since_start;
}

TEST(EventQueue, EventsComeByTimeAndTheClockGoesWithThem) {
  EventQueue<char> queue;
  EXPECT_EQ(queue.next_time(), Instant::never());
  queue.push(at(30_us), 'c');
  queue.push(at(10_us), 'a');
  queue.push(at(20_us), 'b');
  EXPECT_EQ(queue.next_time(), at(10_us));
  EXPECT_EQ(queue.now(), Instant()) << "looking ahead does not move the clock";
  EXPECT_EQ(queue.pop(), 'a');
  EXPECT_EQ(queue.now(), at(10_us));
  EXPECT_EQ(queue.pop(), 'b');
  queue.push(at(20_us), 'x');  // now itself is not in the past
  EXPECT_EQ(queue.pop(), 'x');
  EXPECT_EQ(queue.pop(), 'c');
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.popped(), 4u);
}

TEST(EventQueue, EqualTimesComeInTheOrderOfInsertion) {
  EventQueue<int> queue;
  for (int i = 0; i < 1000; ++i) queue.push(at(1_us), i);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(queue.pop(), i);
}

TEST(EventQueue, AgreesWithAStableSort) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prng random(seed);
    EventQueue<int> queue;
    std::vector<std::pair<std::int64_t, int>> expected;
    std::vector<std::pair<std::int64_t, int>> got;
    int next = 0;
    for (int round = 0; round < 2000; ++round) {
      if (queue.empty() || random.chance(0.6)) {
        // Few different instants, so that many are equal.
        const std::int64_t when = queue.now().ns() + static_cast<std::int64_t>(random.below(50));
        queue.push(Instant::from_ns(when), next);
        expected.emplace_back(when, next++);
      } else {
        const int event = queue.pop();
        got.emplace_back(queue.now().ns(), event);
      }
    }
    while (!queue.empty()) {
      const int event = queue.pop();
      got.emplace_back(queue.now().ns(), event);
    }
    // What is pushed later is never earlier than what has come out, so one sort over everything tells the
    // order.
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(got, expected);
  }
}

TEST(EventQueue, EventsMayOwnWhatTheyCarry) {
  EventQueue<std::unique_ptr<int>> queue;
  for (int i = 9; i >= 0; --i) queue.push(at(Duration::us(i)), std::make_unique<int>(i));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(*queue.pop(), i);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.now(), at(4_us));
}

TEST(EventQueueDeathTest, ThePastCannotBeChanged) {
  EventQueue<int> queue;
  queue.push(at(5_us), 1);
  queue.pop();
  EXPECT_DEATH(queue.push(at(4_us), 2), "at >= now_");
  EXPECT_DEATH(queue.push(Instant::never(), 2), "never");
  EXPECT_DEATH(queue.pop(), "empty");
}

}  // namespace
}  // namespace braid::sim
