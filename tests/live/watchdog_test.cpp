// `braid run --watchdog`: a deadlock ends with a message that says who waits for what; a long computation
// does not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include "tests/cli/command.h"

namespace braid {
namespace {

using cli::testing::Command;
using cli::testing::Finished;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

Finished run(const char* mode, const char* watchdog_s) {
  Command command(Words{BRAID_COMMAND, "run", "--clusters", "2", "--compute", "2", "--watchdog", watchdog_s,
                        BRAID_WATCHDOG_PROGRAM, mode});
  const Finished finished = command.wait(std::chrono::seconds(60));
  EXPECT_THAT(command.left_over(), IsEmpty());
  return finished;
}

TEST(Watchdog, DeadlockEndsTheRunAndEveryProcessReportsItsWaits) {
  const Finished finished = run("deadlock", "1");
  EXPECT_EQ(finished.status, 70) << finished.err;
  // Both locks are taken in cluster 0, whose nodes 0 and 1 take them the wrong way round.
  EXPECT_THAT(finished.err,
              HasSubstr("[c0] braid: compute node 0 waits for lock 5, which compute node 1 has; it has "
                        "lock(s) 4\n"));
  EXPECT_THAT(finished.err,
              HasSubstr("[c0] braid: compute node 1 waits for lock 4, which compute node 0 has; it has "
                        "lock(s) 5\n"));
  EXPECT_THAT(finished.err,
              ContainsRegex("\\[c1\\] braid: compute node 2 waits at barrier 3, where clusters 0 are "
                            "missing"));
  EXPECT_THAT(finished.err,
              HasSubstr("braid: the watchdog: for 1 s every compute node has waited and nothing has "
                        "moved"));
}

TEST(Watchdog, AComputingNodeIsNotADeadlock) {
  const Finished finished = run("compute", "1");
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("[c0] through\n"));
  EXPECT_THAT(finished.out, HasSubstr("[c1] through\n"));
}

}  // namespace
}  // namespace braid
