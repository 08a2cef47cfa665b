#include "proxy/nic/delaying_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/nic/frames.h"
#include "tests/nic/scripted_queue.h"

namespace braid::proxy {
namespace {

using test::numbered;
using test::ScriptedQueue;
using ::testing::ElementsAre;

Instant the_time;
Instant time_of_the_test() {
  return the_time;
}

class Delaying : public ::testing::Test {
 protected:
  void make(std::uint32_t frames) {
    the_time = Instant() + 100_ms;
    auto scripted = std::make_unique<ScriptedQueue>();
    wire = scripted.get();
    queue = std::make_unique<DelayingQueue>(std::move(scripted), 20_ms, frames, time_of_the_test);
  }
  // The numbers of the frames that one call gives out, at `at` after the beginning.
  std::vector<std::uint64_t> receive(Duration at, std::size_t burst = kMaxBurst) {
    the_time = Instant() + 100_ms + at;
    std::array<MutableBytes, kMaxBurst> frames;
    const std::size_t n = queue->receive(std::span(frames).first(burst));
    std::vector<std::uint64_t> numbers;
    for (const MutableBytes frame : std::span(frames).first(n)) {
      EXPECT_TRUE(test::is_numbered(frame) && test::pattern_holds(frame));
      numbers.push_back(test::number_of(frame));
    }
    return numbers;
  }
  void arrive(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i)
      wire->arrive(numbered(i, static_cast<std::uint32_t>(64 + 50 * i)));
  }

  ScriptedQueue* wire = nullptr;
  std::unique_ptr<DelayingQueue> queue;
};

TEST_F(Delaying, EachFrameComesItsTimeAfterItArrived) {
  make(16);
  arrive(0, 2);
  EXPECT_THAT(receive(0_ms), ElementsAre());
  arrive(2, 3);
  EXPECT_THAT(receive(5_ms), ElementsAre());
  EXPECT_THAT(receive(20_ms - 1_ns), ElementsAre());
  EXPECT_THAT(receive(20_ms), ElementsAre(0, 1));
  EXPECT_THAT(receive(24_ms), ElementsAre());
  EXPECT_THAT(receive(25_ms), ElementsAre(2));
  EXPECT_EQ(queue->overflows(), 0u);
}

TEST_F(Delaying, ArrivalsAreTakenFromTheWireAtOnceAndGivenOutInTheirOrder) {
  make(100);
  arrive(0, 70);
  EXPECT_THAT(receive(0_ms, 1), ElementsAre());
  EXPECT_EQ(wire->waiting(), 0u);
  std::vector<std::uint64_t> all;
  for (int call = 0; call < 10; ++call) {
    for (const std::uint64_t number : receive(20_ms, 30)) all.push_back(number);
  }
  ASSERT_EQ(all.size(), 70u);
  for (std::uint64_t i = 0; i < 70; ++i) EXPECT_EQ(all[i], i);
}

TEST_F(Delaying, FramesBeyondItsBuffersAreLostAndCounted) {
  make(4);
  arrive(0, 6);
  EXPECT_THAT(receive(0_ms), ElementsAre());
  EXPECT_EQ(queue->overflows(), 2u);
  EXPECT_THAT(receive(20_ms, 3), ElementsAre(0, 1, 2));
  // Their buffers are free from the next call on.
  arrive(6, 10);
  EXPECT_THAT(receive(20_ms), ElementsAre(3));
  EXPECT_EQ(queue->overflows(), 3u);
  EXPECT_THAT(receive(40_ms), ElementsAre(6, 7, 8));
}

TEST_F(Delaying, WhatWasGivenOutStaysUntilTheNextCall) {
  make(4);
  arrive(0, 2);
  receive(0_ms);
  the_time = Instant() + 120_ms;
  std::array<MutableBytes, kMaxBurst> frames;
  arrive(2, 5);  // the third of them would need the place of the first
  ASSERT_EQ(queue->receive(frames), 2u);
  EXPECT_EQ(test::number_of(frames[0]), 0u);
  EXPECT_EQ(test::number_of(frames[1]), 1u);
  EXPECT_EQ(queue->overflows(), 1u);
}

TEST_F(Delaying, NothingWakesTheOwner) {
  make(1);
  EXPECT_EQ(queue->wake_word(), nullptr);
  EXPECT_FALSE(queue->link_up());
  EXPECT_EQ(queue->transmit_drops(), 17u);
}

}  // namespace
}  // namespace braid::proxy
