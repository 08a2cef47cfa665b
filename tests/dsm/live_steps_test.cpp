// Clusters take their steps together; whoever is out of step is found and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "dsm/live/steps.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

StepFacts facts_of(Step step, std::array<std::uint64_t, 4> numbers = {}, std::string_view name = {}) {
  StepFacts facts;
  facts.step = step;
  facts.numbers = numbers;
  name.copy(facts.name.data(), facts.name.size() - 1);
  return facts;
}

ByteView bytes_of(const StepMessage& m) {
  return std::as_bytes(std::span(&m, 1));
}

struct Clusters {
  explicit Clusters(unsigned n) {
    for (std::uint16_t k = 0; k < n; ++k) steps.emplace_back(ClusterId(k), n);
  }
  // Cluster `k` takes a step and everybody else hears of it.
  void take(std::uint16_t k, const StepFacts& facts) { tell(k, steps[k].begin(facts)); }
  void tell(std::uint16_t k, const StepMessage& m) {
    for (std::uint16_t to = 0; to < steps.size(); ++to) {
      if (to == k) continue;
      EXPECT_TRUE(steps[to].on_message(ClusterId(k), bytes_of(m)));
    }
  }
  std::vector<Steps> steps;
};

TEST(Steps, AStepIsCompleteWhenAllHaveTakenIt) {
  Clusters c(3);
  const StepFacts hello = facts_of(Step::kHello, {1, 3, 2, 256}, "jacobi");
  c.take(0, hello);
  EXPECT_FALSE(c.steps[0].complete());
  c.take(2, hello);
  EXPECT_FALSE(c.steps[0].complete());
  c.take(1, hello);
  for (const Steps& s : c.steps) EXPECT_TRUE(s.complete());
}

TEST(Steps, AClusterOneStepAheadIsRememberedInAnyOrder) {
  Clusters c(2);
  const StepMessage first = c.steps[1].begin(facts_of(Step::kHello));
  c.take(0, facts_of(Step::kHello));
  ASSERT_TRUE(c.steps[1].complete());
  const StepMessage second = c.steps[1].begin(facts_of(Step::kParallel));
  // The network turned them round.
  c.tell(1, second);
  EXPECT_FALSE(c.steps[0].complete());
  c.tell(1, first);
  EXPECT_TRUE(c.steps[0].complete());
  c.take(0, facts_of(Step::kParallel));
  EXPECT_TRUE(c.steps[0].complete());
}

TEST(Steps, DifferentAllocationsAreNamedWithBothSizes) {
  Clusters c(2);
  c.take(0, facts_of(Step::kAllocate, {4096, 0, 0, 0}));
  c.take(1, facts_of(Step::kAllocate, {8192, 1, 0, 0}));
  ASSERT_TRUE(c.steps[0].disagreement());
  EXPECT_FALSE(c.steps[0].complete());
  EXPECT_THAT(
      c.steps[0].explain(),
      HasSubstr("cluster 0 allocates 4096 bytes (block) where cluster 1 allocates 8192 bytes (cyclic)"));
}

TEST(Steps, DifferentCallsAreNamed) {
  Clusters c(2);
  c.take(0, facts_of(Step::kParallel));
  c.take(1, facts_of(Step::kFinish));
  ASSERT_TRUE(c.steps[1].disagreement());
  EXPECT_THAT(c.steps[1].explain(), HasSubstr("cluster 1 called finish() where cluster 0 called parallel()"));
}

TEST(Steps, DifferentMachinesAndProgramsAreNamed) {
  Clusters heaps(2);
  heaps.take(0, facts_of(Step::kHello, {1, 2, 2, 256}, "jacobi"));
  heaps.take(1, facts_of(Step::kHello, {1, 2, 2, 128}, "jacobi"));
  EXPECT_THAT(heaps.steps[0].explain(),
              HasSubstr("BRAID_HEAP_MIB is 256 here in cluster 0, but 128 in cluster 1"));

  Clusters programs(2);
  programs.take(0, facts_of(Step::kHello, {1, 2, 2, 256}, "jacobi"));
  programs.take(1, facts_of(Step::kHello, {1, 2, 2, 256}, "matmul"));
  EXPECT_THAT(programs.steps[0].explain(), HasSubstr("cluster 0 runs 'jacobi', but cluster 1 runs 'matmul'"));
}

TEST(Steps, RefusesWhatIsNoStepOfAnotherCluster) {
  Steps s(ClusterId(0), 2);
  StepMessage m;
  m.sequence = 1;
  m.facts = facts_of(Step::kHello);
  EXPECT_FALSE(s.on_message(ClusterId(0), bytes_of(m))) << "our own";
  EXPECT_FALSE(s.on_message(ClusterId(2), bytes_of(m))) << "no such cluster";
  EXPECT_FALSE(s.on_message(ClusterId(1), bytes_of(m).first(sizeof m - 1))) << "cut";
  m.sequence = 2;
  EXPECT_FALSE(s.on_message(ClusterId(1), bytes_of(m))) << "two steps ahead";
  m.sequence = 1;
  m.facts.name.fill('x');
  EXPECT_FALSE(s.on_message(ClusterId(1), bytes_of(m))) << "a name without end";
  m.facts.name = {};
  EXPECT_TRUE(s.on_message(ClusterId(1), bytes_of(m)));
}

}  // namespace
}  // namespace braid::dsm
