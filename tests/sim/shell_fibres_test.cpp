#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <string>
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
