// Programs whose main() runs in cluster 0 alone (dsm/once): what their processes share and own, and that a run of them ends
// as any other does, whichever of its processes ends first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "tests/cli/command.h"

namespace braid {
namespace {

using cli::testing::Command;
using cli::testing::count;
using cli::testing::Finished;
using cli::testing::TemporaryFile;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

Words words(unsigned clusters, const Words& program, const Words& options = {}) {
  Words all = {BRAID_COMMAND, "run", "--quiet",   "--clusters", std::to_string(clusters),
               "--compute",   "1",   "--proxies", "1"};
  all.insert(all.end(), options.begin(), options.end());
  all.push_back(BRAID_MAIN_ONCE_PROGRAM);
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

Finished run(unsigned clusters, const Words& program, const std::string& input = "") {
  return cli::testing::run(words(clusters, program), {}, input);
}

TEST(MainOnce, RunsInCluster0AndEveryClusterHasACopyOfWhatItDid) {
  for (const unsigned clusters : {1u, 2u, 4u}) {
    SCOPED_TRACE(clusters);
    const Finished finished = run(clusters, {"copies"}, "first\nsecond\n");
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(count(finished.out, "[c0] constructed\n"), 1u) << finished.out;
    EXPECT_EQ(count(finished.out, "constructed\n"), 1u) << finished.out;
    EXPECT_EQ(count(finished.out, "main\n"), 1u) << finished.out;
    EXPECT_THAT(finished.out, HasSubstr("[c0] buffered cluster 0 right, no child, read second\n"));
    EXPECT_EQ(count(finished.out, "buffered"), 1u) << finished.out;
    for (unsigned k = 1; k < clusters; ++k) {
      const std::string name = std::to_string(k);
      EXPECT_THAT(finished.out,
                  HasSubstr("[c" + name + "] cluster " + name + " right, no child, read nothing\n"));
    }
  }
}

TEST(MainOnce, ProgramRunsAloneWithoutBraidRun) {
  const Finished finished = cli::testing::run({BRAID_MAIN_ONCE_PROGRAM, "copies"}, {}, "first\nsecond\n");
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("cluster 0 right, no child, read second\n"));
}

TEST(MainOnce, ContentsFromBeforeTheStartAreTheSharedHeapsInEveryCluster) {
  for (const unsigned clusters : {1u, 2u, 4u}) {
    SCOPED_TRACE(clusters);
    for (const char* const protection : {"mprotect", "auto"}) {
      const Finished finished =
          cli::testing::run(words(clusters, {"early-heap"}, {"--protection", protection}));
      EXPECT_EQ(finished.status, 0) << finished.err;
      EXPECT_THAT(finished.out, HasSubstr("early heap right, 0 wrong\n"));
    }
  }
}

TEST(MainOnce, OutputThatMainHasRedirectedIsSharedAndTheRestIsEachClustersOwn) {
  const TemporaryFile file;
  const Finished finished = run(2, {"redirected", file.path()});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(file.text(), "file of cluster 0\nfile of cluster 1\n");
  EXPECT_THAT(finished.err, HasSubstr("[c0] errors of cluster 0\n"));
  EXPECT_THAT(finished.err, HasSubstr("[c1] errors of cluster 1\n"));
}

TEST(MainOnce, ProgramThatEndsWithoutStartingTheClustersHasTheRunsStatus) {
  const Finished returned = run(3, {"early-return"});
  EXPECT_EQ(returned.status, 0) << returned.err;
  EXPECT_EQ(returned.err, "");
  const Finished exited = run(3, {"early-exit"});
  EXPECT_EQ(exited.status, 3) << exited.err;
  EXPECT_THAT(exited.err, ContainsRegex("application of cluster 0 \\(pid [0-9]+\\) exited with status 3"));
  const Finished killed = run(3, {"early-signal"});
  EXPECT_EQ(killed.status, 128 + SIGUSR1) << killed.err;
  EXPECT_THAT(killed.err, ContainsRegex("application of cluster 0 \\(pid [0-9]+\\) was killed by signal 10"));
}

TEST(MainOnce, WrongStartsAreRefusedWithTheReason) {
  const Finished thread = run(2, {"early-thread"});
  EXPECT_EQ(thread.status, 70) << thread.err;
  EXPECT_THAT(thread.err,
              HasSubstr("[c0] braid: the program has 2 threads when it starts the other clusters"));
  const Finished twice = run(2, {"twice"});
  EXPECT_EQ(twice.status, 70) << twice.err;
  EXPECT_THAT(twice.err, HasSubstr("braid: start_clusters() was called twice\n"));
  const Finished alone = cli::testing::run({BRAID_MAIN_ONCE_PROGRAM, "wait"},
                                           {{"BRAID_CLUSTERS", "2"}, {"BRAID_SERVICE", "@none"}});
  EXPECT_EQ(alone.status, 70);
  EXPECT_THAT(alone.err, HasSubstr("in a process that `braid run` has not started"));
}

TEST(MainOnce, TheProgramThatEndsFirstIsNamedAsTheCause) {
  for (const unsigned cluster : {0u, 1u}) {
    SCOPED_TRACE(cluster);
    const std::string name = std::to_string(cluster);
    const std::string application = "application of cluster " + name + " \\(pid [0-9]+\\) ";
    const Finished exited = run(2, {"exit", name});
    EXPECT_EQ(exited.status, 5) << exited.err;
    EXPECT_THAT(exited.err, ContainsRegex(application + "exited with status 5 before finish\\(\\)"));
    const Finished killed = run(2, {"kill", name});
    EXPECT_EQ(killed.status, 128 + SIGKILL) << killed.err;
    EXPECT_THAT(killed.err, ContainsRegex(application + "was killed by signal 9"));
    const Finished status = run(2, {"status", name});
    EXPECT_EQ(status.status, 6) << status.err;
  }
}

// The processes of the program: a stand-in and a program for each cluster, and the warden.
std::map<pid_t, std::string> processes_of(const Command& command) {
  std::map<pid_t, std::string> found;
  for (const auto& [pid, line] : command.processes()) {
    if (pid != command.pid() && line.starts_with(BRAID_MAIN_ONCE_PROGRAM)) found.emplace(pid, line);
  }
  return found;
}

TEST(MainOnce, NothingIsLeftWhicheverProcessIsKilled) {
  for (std::size_t which = 0; which < 5; ++which) {
    SCOPED_TRACE(which);
    Command command(words(2, {"wait", "1"}));
    ASSERT_TRUE(command.expect("joined", 2)) << command.so_far().err;
    const std::map<pid_t, std::string> processes = processes_of(command);
    ASSERT_EQ(processes.size(), 5u);
    ASSERT_EQ(::kill(std::next(processes.begin(), static_cast<std::ptrdiff_t>(which))->first, SIGKILL), 0);
    const Finished& finished = command.wait();
    EXPECT_TRUE(finished.status == 128 + SIGKILL || finished.status == 70) << finished.status << finished.err;
    EXPECT_THAT(command.left_over(), IsEmpty());
  }
}

TEST(MainOnce, SignalsOfTheRunReachThePrograms) {
  for (const int number : {SIGINT, SIGTERM}) {
    Command command(words(2, {"wait", "1"}));
    ASSERT_TRUE(command.expect("joined", 2)) << command.so_far().err;
    command.signal(number);
    EXPECT_EQ(command.wait().status, 128 + number) << command.so_far().err;
    EXPECT_THAT(command.left_over(), IsEmpty());
  }
  Command command(words(2, {"wait", "1"}));
  ASSERT_TRUE(command.expect("joined", 2)) << command.so_far().err;
  ::kill(command.pid(), SIGKILL);
  command.wait();
  EXPECT_THAT(command.left_over(), IsEmpty());
}

TEST(MainOnce, WatchdogEndsADeadlockAndThePrograms) {
  const Finished finished = cli::testing::run(words(2, {"wait", "1"}, {"--watchdog", "1"}));
  EXPECT_EQ(finished.status, 70) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("[c0] braid: compute node 0 waits for flag 7 to be set"));
  EXPECT_THAT(finished.err, HasSubstr("[c1] braid: compute node 1 waits for flag 7 to be set"));
  EXPECT_THAT(finished.err, HasSubstr("braid: the watchdog: for 1 s every compute node has waited"));
}

}  // namespace
}  // namespace braid
