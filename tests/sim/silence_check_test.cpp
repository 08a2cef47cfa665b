// Peers of a stopped node are on time within the limit, too late after it, and judged by the time they ran.
#include "tests/sim/silence_check.h"

#include <gtest/gtest.h>

namespace braid::sim {
namespace {

using Gaps = std::vector<Duration>;

constexpr Instant at(Duration since_start) {
  return Instant() + since_start;
}

// Node 2 of three is stopped at 1 s; node 0, with two proxies, must give it up within 500 ms.
struct Fixture {
  Fixture() {
    check.begin(2, at(1_s));
    check.expect(0, {10_ms, 20_ms});
  }
  std::string at_time(Duration time, const Gaps& gaps = {10_ms, 20_ms}, bool given_up = false) {
    return check.check(0, at(time), gaps, given_up);
  }
  SilenceCheck check{3, 500_ms};
};

TEST(SilenceCheck, APeerIsOnTimeWithinTheLimitOnly) {
  Fixture f;
  EXPECT_EQ(f.check.stopped(), 2u);
  EXPECT_EQ(f.at_time(1500_ms), "");
  EXPECT_EQ(
      f.at_time(1501_ms),
      "cluster 0 has not given up cluster 2, which was silent for 501 ms, 0 ms of scheduling gaps aside");
}

TEST(SilenceCheck, TheLongestGapsSinceTheStopDoNotCount) {
  Fixture f;
  EXPECT_EQ(f.at_time(1600_ms, {20_ms, 120_ms}), "");
  EXPECT_NE(f.at_time(1601_ms, {20_ms, 120_ms}), "");
  EXPECT_NE(f.at_time(1600_ms, {20_ms, 119_ms}), "");
}

TEST(SilenceCheck, APeerThatGaveTheNodeUpIsNotJudgedAgain) {
  Fixture f;
  EXPECT_EQ(f.at_time(1400_ms, {10_ms, 20_ms}, true), "");
  EXPECT_FALSE(f.check.is_expected(0));
  EXPECT_EQ(f.at_time(9_s), "");
}

TEST(SilenceCheck, APeerThatGivesUpTooLateIsNamed) {
  Fixture f;
  EXPECT_EQ(
      f.at_time(1700_ms, {60_ms, 20_ms}, true),
      "cluster 0 gave up only now cluster 2, which was silent for 650 ms, 50 ms of scheduling gaps aside");
}

TEST(SilenceCheck, NothingIsExpectedOfOthersOrAfterTheEnd) {
  Fixture f;
  EXPECT_TRUE(f.check.is_expected(0));
  EXPECT_FALSE(f.check.is_expected(1)) << "it had not reached the node";
  EXPECT_EQ(f.check.check(1, at(9_s), {}, false), "");
  f.check.end();
  EXPECT_FALSE(f.check.is_expected(0));
  EXPECT_EQ(f.at_time(9_s), "");
}

TEST(SilenceCheck, ASecondStopBeginsAnew) {
  Fixture f;
  f.check.end();
  f.check.begin(1, at(5_s));
  EXPECT_FALSE(f.check.is_expected(0));
  f.check.expect(0, {0_ms});
  EXPECT_EQ(f.check.check(0, at(5500_ms), Gaps{0_ms}, false), "");
  EXPECT_NE(f.check.check(0, at(5501_ms), Gaps{0_ms}, false), "");
}

}  // namespace
}  // namespace braid::sim
