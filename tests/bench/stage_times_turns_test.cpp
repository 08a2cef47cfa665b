#include <gtest/gtest.h>

#include "bench/stage_times_clock.h"
#include "bench/stage_times_parts.h"

namespace braid::bench {
namespace {

// An acknowledgement that is delayed for 1 us is due before the messages are polled. The usual delay is as short
// on a machine that is ten times slower.
TEST(StageTimes, TurnsAreTimedWhenTheAcknowledgementIsDueBeforeTheNextTurn) {
  const auto two = make_two_nodes(1);
  ASSERT_TRUE(two) << two.error().text;
  for (const int messages : {1, 5}) {
    const Result<Turns> turns = time_turns(**two, kShort, messages, 10, 0);
    ASSERT_TRUE(turns) << turns.error().text;
    EXPECT_GT(turns->send, 0);
    EXPECT_GT(turns->idle, 0);
    EXPECT_GT(turns->acknowledge, turns->idle);
  }
}

}  // namespace
}  // namespace braid::bench
