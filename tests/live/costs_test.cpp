// The closing report of whole runs names the memory and the locks that cost most, and where the memory was allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/live/braid_run.h"

namespace braid {
namespace {

using namespace live::testing;  // NOLINT
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Costs : public BraidRun {
 protected:
  static Outcome run_two(const char* what) {
    Outcome outcome = run({"--clusters", "2", "--compute", "1"}, {BRAID_COSTS_PROGRAM, what});
    EXPECT_EQ(outcome.finished.status, 0) << outcome.finished.err;
    EXPECT_THAT(outcome.finished.out, Not(HasSubstr("WRONG")));
    return outcome;
  }
};

TEST_F(Costs, FalselySharedMemoryIsNamedWithTheLineThatAllocatedIt) {
  const Outcome o = run_two("halves");
  const Json& costs = o.report["costs"];
  const Json& memory = costs["memory"][0];
  EXPECT_THAT(memory["allocated"], HasSubstr("make_halves at costs_program.cpp:16"));
  EXPECT_EQ(memory["sharing"], "several writers, each in other bytes");
  const Json& page = costs["pages"][0];
  ASSERT_EQ(page["clusters"].size(), 2u);
  EXPECT_EQ(page["clusters"][0]["written"], (Json{0, 0}));
  EXPECT_EQ(page["clusters"][1]["written"], (Json{2048, 2048}));
  EXPECT_GT(page["clusters"][1]["write_faults"], 100);
  EXPECT_THAT(o.finished.err, ContainsRegex("several writers, each in other bytes +.*make_halves"));
}

TEST_F(Costs, MemoryThatSeveralWriteInOnePlaceIsDistinguished) {
  const Outcome o = run_two("together");
  EXPECT_THAT(o.report["costs"]["memory"][0]["allocated"], HasSubstr("make_halves at"));
  EXPECT_EQ(o.report["costs"]["memory"][0]["sharing"], "several writers");
}

TEST_F(Costs, LockWithTheMostWaitingIsNamed) {
  const Outcome o = run_two("lock");
  const Json& lock = o.report["costs"]["locks"][0];
  EXPECT_EQ(lock["lock"], 9);
  EXPECT_GT(lock["waits"], 0);
  EXPECT_GE(lock["longest_ns"], 5'000'000) << "the other node holds it for 10 ms";
  EXPECT_LE(lock["longest_ns"], lock["locks_ns"]);
  EXPECT_THAT(o.report["costs"]["advice"], HasSubstr("most for lock 9:"));
  EXPECT_THAT(o.finished.err, HasSubstr("most for lock 9:"));
}

TEST_F(Costs, LockAtAnAddressIsNamedByTheMemoryThatItLiesIn) {
  const Outcome o = run_two("lock_at");
  EXPECT_THAT(
      o.report["costs"]["locks"][0]["name"].get<std::string>(),
      ContainsRegex(
          "^the lock at 0x[0-9a-f]+, 64 bytes into what was allocated in .*make_halves at costs_program.cpp:16"));
  EXPECT_THAT(o.finished.err, ContainsRegex("most for the lock at 0x.*make_halves"));
}

TEST_F(Costs, MemoryThatOneNodeAllocatedIsNamed) {
  const Outcome o = run_two("alone");
  bool named = false;
  for (const Json& memory : o.report["costs"]["memory"])
    named |=
        memory["allocated"].get<std::string>().find("operator() at costs_program.cpp") != std::string::npos;
  EXPECT_TRUE(named) << o.report["costs"].dump(1);
}

// Of nodes, memory and proxies.
TEST_F(Costs, ReportTellsWhatComesAfterTheFiguresReset) {
  const Outcome all = run_two("halves");
  const Outcome rest = run_two("reset");
  EXPECT_GT(all.report["totals"]["messages_sent"], 300);
  EXPECT_LT(rest.report["totals"]["messages_sent"], 100);
  EXPECT_GT(rest.report["totals"]["messages_sent"], 0);
  EXPECT_TRUE(rest.report["costs"]["memory"].empty()) << rest.report["costs"].dump(1);
  EXPECT_EQ(rest.report["clusters"][1]["application"]["report"]["nodes"][0]["write_faults"], 0);
}

}  // namespace
}  // namespace braid
