// Virtual time: events come out by time, and by insertion where times are equal.
#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/prng.h"

namespace braid::sim {
namespace {

constexpr Instant at(Duration since_start) {
  return Instant() + since_start;
}

TEST(EventQueue, EventsAreOrderedByTimeAndMoveTheClock) {
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
    // Events that are pushed later are never earlier than those that were popped, so one sort over all gives
    // the order.
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(got, expected);
  }
}

// Bursts, lulls, timers far ahead that others overtake, and crowds: what makes buckets wider and narrower.
TEST(EventQueue, AgreesWithAnOrderedSetForAnyDistances) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prng random(seed);
    EventQueue<int> queue(at(Duration::us(static_cast<std::int64_t>(random.below(1000)))));
    std::set<std::tuple<std::int64_t, std::uint32_t, int>> expected;
    int next = 0;
    for (int phase = 0; phase < 12; ++phase) {
      const auto reach = std::uint64_t{1} << random.below(36);
      const std::size_t crowd = std::size_t{1} << random.below(14);
      for (int turn = 0; turn < 6000; ++turn) {
        ASSERT_EQ(queue.size(), expected.size());
        ASSERT_EQ(queue.next_time(),
                  expected.empty() ? Instant::never() : Instant::from_ns(std::get<0>(*expected.begin())));
        if (queue.empty() || (queue.size() < crowd && random.chance(0.7))) {
          const std::uint64_t distance =
              random.chance(0.05) ? random.below(reach * 1000) : random.below(reach);
          const std::int64_t when = queue.now().ns() + static_cast<std::int64_t>(distance);
          const auto rank = static_cast<std::uint32_t>(random.below(3));
          queue.push(Instant::from_ns(when), next, rank);
          expected.emplace(when, rank, next++);
        } else {
          const int event = queue.pop();
          ASSERT_EQ(std::make_pair(queue.now().ns(), event),
                    std::make_pair(std::get<0>(*expected.begin()), std::get<2>(*expected.begin())));
          expected.erase(expected.begin());
        }
      }
    }
  }
}

TEST(EventQueue, EventsMayBeMoveOnly) {
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
