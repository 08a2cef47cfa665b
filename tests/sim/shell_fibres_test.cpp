#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "sim/shell/node_fibres.h"

namespace braid::sim {
namespace {

using testing::ElementsAre;

TEST(NodeFibres, NodeZeroIsTheConstructingThread) {
  NodeFibres fibres(1, [](unsigned) { std::terminate(); });
  EXPECT_EQ(fibres.current(), 0u);
  fibres.switch_to(0);
  EXPECT_EQ(fibres.current(), 0u);
}

TEST(NodeFibres, EachFibreRunsEntryWithItsNumberAndContinuesWhereItStopped) {
  std::vector<std::string> log;
  NodeFibres* all = nullptr;
  NodeFibres fibres(3, [&](unsigned node) {
    for (int turn = 0;; ++turn) {
      EXPECT_EQ(all->current(), node);
      log.push_back(std::to_string(node) + " turn " + std::to_string(turn));
      all->switch_to(0);
    }
  });
  all = &fibres;
  ASSERT_TRUE(fibres.make_all().ok());
  for (const unsigned node : {2u, 1u, 2u}) {
    fibres.switch_to(node);
    EXPECT_EQ(fibres.current(), 0u);
  }
  EXPECT_THAT(log, ElementsAre("2 turn 0", "1 turn 0", "2 turn 1"));
}

TEST(NodeFibres, SecondMakeAllKeepsExistingFibres) {
  NodeFibres* all = nullptr;
  unsigned started = 0;
  NodeFibres fibres(2, [&](unsigned) {
    ++started;
    for (;;) all->switch_to(0);
  });
  all = &fibres;
  ASSERT_TRUE(fibres.make_all().ok());
  fibres.switch_to(1);
  ASSERT_TRUE(fibres.make_all().ok());
  fibres.switch_to(1);
  EXPECT_EQ(started, 1u);
}

TEST(NodeFibres, EachFibreHasItsOwnErrno) {
  NodeFibres* all = nullptr;
  NodeFibres fibres(2, [&](unsigned) {
    for (int value = 50;; ++value) {
      errno = value;
      all->switch_to(0);
      EXPECT_EQ(errno, value);
    }
  });
  all = &fibres;
  ASSERT_TRUE(fibres.make_all().ok());
  errno = 7;
  fibres.switch_to(1);
  EXPECT_EQ(errno, 7);
  fibres.switch_to(1);
  EXPECT_EQ(errno, 7);
}

// Of x87 and of SSE, each with a control word of its own.
TEST(NodeFibres, EachFibreRoundsInItsOwnWay) {
  const auto rounds = [](const volatile long double& x) {
    const volatile double sse = 1 / static_cast<double>(x);
    return std::pair(static_cast<long double>(sse), 1 / x);
  };
  const volatile long double three = 3;
  NodeFibres* all = nullptr;
  std::vector<std::pair<long double, long double>> results;
  NodeFibres fibres(2, [&](unsigned) {
    std::fesetround(FE_UPWARD);
    for (;;) {
      results.push_back(rounds(three));
      all->switch_to(0);
    }
  });
  all = &fibres;
  ASSERT_TRUE(fibres.make_all().ok());
  std::fesetround(FE_DOWNWARD);
  const auto down = rounds(three);
  for (int turn = 0; turn < 2; ++turn) {
    fibres.switch_to(1);
    EXPECT_EQ(rounds(three), down);
  }
  std::fesetround(FE_TONEAREST);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_GT(results[0].first, down.first);
  EXPECT_GT(results[0].second, down.second);
}

TEST(NodeFibres, HandledExceptionStaysOnItsFibre) {
  NodeFibres* all = nullptr;
  int caught = 0;
  NodeFibres fibres(2, [&](unsigned) {
    for (;;) {
      try {
        throw 5;
      } catch (int number) {
        caught = number;
        all->switch_to(0);  // while the exception is being handled
      }
      all->switch_to(0);
    }
  });
  all = &fibres;
  ASSERT_TRUE(fibres.make_all().ok());
  fibres.switch_to(1);
  EXPECT_EQ(caught, 5);
  EXPECT_EQ(std::current_exception(), nullptr);
  fibres.switch_to(1);
}

}  // namespace
}  // namespace braid::sim
