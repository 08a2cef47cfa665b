#include "sim/collective_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::sim {
namespace {

dsm::CollectiveCall call_of(dsm::CallKind kind, std::uint64_t bytes = 0) {
  dsm::CollectiveCall f;
  f.kind = kind;
  f.numbers[0] = bytes;
  return f;
}

TEST(CollectiveCalls, CallIsMadeWhenTheLastClusterHasJoined) {
  CollectiveCalls calls(3);
  for (int round = 0; round < 2; ++round) {
    const dsm::CollectiveCall parallel = call_of(dsm::CallKind::kParallel);
    EXPECT_FALSE(*calls.join(ClusterId(2), parallel));
    EXPECT_FALSE(*calls.join(ClusterId(0), parallel));
    EXPECT_TRUE(*calls.join(ClusterId(1), parallel));
  }
}

TEST(CollectiveCalls, SingleClusterDoesNotWait) {
  CollectiveCalls calls(1);
  EXPECT_TRUE(*calls.join(ClusterId(0), call_of(dsm::CallKind::kJoin)));
  EXPECT_TRUE(*calls.join(ClusterId(0), call_of(dsm::CallKind::kFinish)));
}

TEST(CollectiveCalls, DifferencesAreNamedWithTheirClusters) {
  CollectiveCalls calls(3);
  EXPECT_TRUE(calls.join(ClusterId(0), call_of(dsm::CallKind::kAllocate, 100)).ok());
  EXPECT_TRUE(calls.join(ClusterId(1), call_of(dsm::CallKind::kAllocate, 100)).ok());
  const Result<bool> last = calls.join(ClusterId(2), call_of(dsm::CallKind::kAllocate, 101));
  ASSERT_FALSE(last.ok());
  EXPECT_THAT(last.error().text, testing::AllOf(testing::HasSubstr("cluster 0 allocates 100 bytes"),
                                                testing::HasSubstr("cluster 2 allocates 101 bytes")));
}

TEST(CollectiveCalls, DifferentCallsAreADifference) {
  CollectiveCalls calls(2);
  EXPECT_TRUE(calls.join(ClusterId(1), call_of(dsm::CallKind::kParallel)).ok());
  EXPECT_FALSE(calls.join(ClusterId(0), call_of(dsm::CallKind::kFinish)).ok());
}

}  // namespace
}  // namespace braid::sim
