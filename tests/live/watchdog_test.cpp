// `braid run --watchdog`: a deadlock ends with a message that says who waits for what; a long computation
// does not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

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
  return cli::testing::run({BRAID_COMMAND, "run", "--clusters", "2", "--compute", "2", "--watchdog",
                            watchdog_s, BRAID_WATCHDOG_PROGRAM, mode});
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

// The pid of a program's process in this cluster; -1: there is none in time.
pid_t process_of(const Command& command, const std::string& program, unsigned cluster) {
  for (const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       std::chrono::steady_clock::now() < limit; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    for (const auto& [pid, line] : command.processes()) {
      std::ifstream environment("/proc/" + std::to_string(pid) + "/environ");
      const std::string text(std::istreambuf_iterator<char>(environment), {});
      if (line.starts_with(program) &&
          text.find("BRAID_CLUSTER=" + std::to_string(cluster)) != std::string::npos)
        return pid;
    }
  }
  return -1;
}

TEST(Watchdog, WithoutALimitARunWithoutProgressGetsAHintAndContinues) {
  const auto start = [](const char* mode) {
    return std::make_unique<Command>(Words{BRAID_COMMAND, "run", "--clusters", "2", "--compute", "2",
                                           "--watchdog-hint", "2", BRAID_WATCHDOG_PROGRAM, mode});
  };
  const auto deadlock = start("deadlock"), stopped = start("barriers");
  const pid_t victim = process_of(*stopped, BRAID_WATCHDOG_PROGRAM, 1);
  ASSERT_GT(victim, 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::kill(victim, SIGSTOP);
  EXPECT_TRUE(deadlock->expect("for 2 s every compute node has waited and nothing has moved; "))
      << deadlock->so_far().err;
  EXPECT_TRUE(deadlock->expect("[c0] braid: compute node 0 waits for lock 5, which compute node 1 has"));
  EXPECT_TRUE(stopped->expect("application of cluster 1 (pid " + std::to_string(victim) +
                              ") is stopped (kill -CONT " + std::to_string(victim) + " continues it)"))
      << stopped->so_far().err;
  EXPECT_TRUE(stopped->expect("[c0] braid: compute node 0 waits at barrier 3"));
  ::kill(victim, SIGCONT);
  EXPECT_EQ(stopped->wait().status, 0) << "it went on";
  EXPECT_THAT(stopped->so_far().out, HasSubstr("[c1] through\n"));
  deadlock->signal(SIGTERM);
  EXPECT_EQ(deadlock->wait().status, 128 + SIGTERM);
  EXPECT_THAT(deadlock->left_over(), IsEmpty());
}

TEST(Watchdog, AStoppedProcessIsNamedWhereTheRunEnds) {
  Command command(Words{BRAID_COMMAND, "run", "--clusters", "2", "--compute", "2", "--watchdog", "2",
                        BRAID_WATCHDOG_PROGRAM, "barriers"});
  const pid_t victim = process_of(command, BRAID_WATCHDOG_PROGRAM, 1);
  ASSERT_GT(victim, 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::kill(victim, SIGSTOP);
  const Finished& finished = command.wait();
  EXPECT_EQ(finished.status, 70);
  EXPECT_THAT(finished.err, HasSubstr("(pid " + std::to_string(victim) + ") is stopped"));
  EXPECT_THAT(command.left_over(), IsEmpty());
}

// How often the hint is in `text` that nodes compute alone.
std::size_t alone_hints(const std::string& text) {
  const std::string hint =
      "s some compute nodes have waited while all others computed without a call of the runtime";
  std::size_t count = 0;
  for (std::size_t at = text.find(hint); at != std::string::npos; at = text.find(hint, at + 1)) ++count;
  return count;
}

TEST(Watchdog, NodesThatPollAPlainVariableWhileOthersWaitAreNamedWithTheirPlace) {
  Command command(Words{BRAID_COMMAND, "run", "--clusters", "2", "--compute", "2", "--watchdog-hint", "3",
                        BRAID_WATCHDOG_PROGRAM, "poll"});
  EXPECT_TRUE(command.expect("braid: for 3 s some compute nodes have waited")) << command.so_far().err;
  for (const char* const text :
       {"[c0] braid: compute node 0 computes without a call of the runtime for ",
        "[c1] braid: compute node 2 computes without a call of the runtime for ",
        "[c0] braid: compute node 1 waits at barrier 3", "[c1] braid: compute node 3 waits at barrier 3"})
    EXPECT_TRUE(command.expect(text)) << text << command.so_far().err;
  EXPECT_THAT(command.so_far().err, ContainsRegex("for [0-9]+ s, now in .*poll_for"));
  std::this_thread::sleep_for(std::chrono::seconds(5));
  EXPECT_EQ(alone_hints(command.so_far().err), 1u) << "once";
  command.signal(SIGTERM);
  EXPECT_EQ(command.wait().status, 128 + SIGTERM) << "the run had gone on";
  EXPECT_THAT(command.left_over(), IsEmpty());
}

TEST(Watchdog, ALongComputationGetsAHintAtMostOnceAndIsNotDisturbed) {
  const Finished finished = cli::testing::run({BRAID_COMMAND, "run", "--clusters", "2", "--compute", "2",
                                               "--watchdog-hint", "1", BRAID_WATCHDOG_PROGRAM, "compute"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_LE(alone_hints(finished.err), 1u) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("[c0] through\n"));
  EXPECT_THAT(finished.out, HasSubstr("[c1] through\n"));
}

TEST(Watchdog, AComputingNodeIsNotADeadlock) {
  const Finished finished = run("compute", "1");
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("[c0] through\n"));
  EXPECT_THAT(finished.out, HasSubstr("[c1] through\n"));
}

}  // namespace
}  // namespace braid
