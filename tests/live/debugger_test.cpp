// `braid run --gdb`: gdb on the process of one cluster, with commands from a file, a pipe or a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cli/command.h"

namespace braid {
namespace {

using cli::testing::Command;
using cli::testing::count;
using cli::testing::Finished;
using cli::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

Words words(const Words& options, const Words& program = {BRAID_DEBUGGED_PROGRAM}) {
  Words all = {BRAID_COMMAND, "run", "--quiet", "--clusters", "2", "--compute", "2", "--proxies", "1"};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

Finished run(Words options, const std::string& commands, const Words& program = {BRAID_DEBUGGED_PROGRAM},
             const std::string& input = "") {
  const TemporaryFile file(commands);
  options.insert(options.end(), {"--gdb-command", file.path()});
  return cli::testing::run(words(options, program), {}, input);
}

TEST(Debugger, StopsAComputeNodeAndPrintsSharedMemory) {
  for (const char* const protection : {"mprotect", "auto"}) {
    for (const char* const cluster : {"0", "1"}) {
      SCOPED_TRACE(std::string(protection) + " " + cluster);
      const Finished finished = run({"--protection", protection, "--gdb", std::string(cluster) + ".1"},
                                    "break at_the_point if $_node() == 1\n"
                                    "continue\n"
                                    "print *shared\n"
                                    "print $cluster * 10 + $_node()\n"
                                    "node 0\n"
                                    "print $_node() + 100\n"
                                    "node\n"
                                    "print $_node() + 200\n"
                                    "delete\n"
                                    "continue\n");
      EXPECT_EQ(finished.status, 0) << finished.err;
      EXPECT_THAT(finished.out, HasSubstr("[gdb] $1 = 42\n"));
      EXPECT_THAT(finished.out, HasSubstr(std::string("[gdb] $2 = ") + (*cluster == '0' ? "1\n" : "11\n")));
      EXPECT_THAT(finished.out, AllOf(HasSubstr("[gdb] $3 = 100\n"), HasSubstr("[gdb] $4 = 201\n")));
      EXPECT_THAT(finished.out, ContainsRegex("\\[gdb\\] .*exited normally"));
      EXPECT_THAT(finished.out,
                  AllOf(HasSubstr("[c0] cluster 0: 168\n"), HasSubstr("[c1] cluster 1: 168\n")));
      // Page faults stop nothing.
      EXPECT_THAT(finished.out, Not(ContainsRegex("received signal")));
    }
  }
}

TEST(Debugger, NothingEndsWhileTheProcessIsStopped) {
  // Longer than the others would wait in init(), and than the watchdog's limit.
  const Finished finished =
      run({"--gdb", "1.0", "--start-timeout", "1500", "--watchdog", "1", "--watchdog-hint", "1"},
          "shell sleep 3\nbreak at_the_point\ncontinue\nshell sleep 3\ndelete\ncontinue\n");
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("[c0] cluster 0: 168\n"));
  EXPECT_THAT(finished.err, Not(HasSubstr("every compute node has waited")));
}

TEST(Debugger, ACrashStopsWhereItIs) {
  const Finished finished =
      run({"--gdb", "1.0"}, "continue\nbacktrace\ncontinue\n", {BRAID_DEBUGGED_PROGRAM, "crash"});
  EXPECT_EQ(finished.status, 128 + SIGSEGV);
  EXPECT_EQ(count(finished.out, "report_crash ("), 2u) << finished.out;  // the stop and its backtrace
  EXPECT_THAT(finished.out, ContainsRegex("signal handler called>\n.*debugged_program\\.cpp"));
  EXPECT_THAT(finished.out, HasSubstr("Program terminated with signal SIGSEGV"));
  EXPECT_THAT(finished.err, HasSubstr("[c1] braid: cluster 1, compute node 2: Segmentation fault"));
}

TEST(Debugger, CommandsComeFromStandardInput) {
  const Finished finished = cli::testing::run(words({"--gdb", "1"}), {}, "print 6 * 7\n");
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("$1 = 42\n"));
  // At the end of the commands gdb lets the process go.
  EXPECT_THAT(finished.out, AllOf(HasSubstr("detached]"), HasSubstr("[c1] cluster 1: 168\n")));
}

TEST(Debugger, AProcessThatIsKilledInGdbFailsTheRun) {
  const Finished finished = run({"--gdb", "1.0"}, "kill\n");
  EXPECT_EQ(finished.status, 128 + SIGKILL);
  EXPECT_THAT(finished.err,
              ContainsRegex("application of cluster 1 \\(pid [0-9]+\\) was killed by signal 9"));
}

TEST(Debugger, FindsTheProcessOfAProgramWhoseMainRunsOnce) {
  for (const char* const cluster : {"0", "1"}) {
    SCOPED_TRACE(cluster);
    const Finished finished =
        run({"--gdb", cluster}, "continue\n", {BRAID_MAIN_ONCE_PROGRAM, "copies"}, "first\nsecond\n");
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_THAT(finished.out, ContainsRegex("\\[gdb\\] .*exited normally"));
    EXPECT_THAT(finished.out, HasSubstr("[c1] cluster 1 right, no child, read nothing\n"));
  }
}

// --- at a terminal

// gdb at a terminal, stopped in cluster 1 at the point.
class AtTerminal {
 public:
  explicit AtTerminal(const char* mode)
      : command(words({"--gdb", "1.0"}, {BRAID_DEBUGGED_PROGRAM, mode}), {{"TERM", "dumb"}}, "",
                Command::Input::kTerminal, Command::Errors::kTerminal) {
    says("Set others, then: continue");
    command.type("tbreak at_the_point\ncontinue\n");
    says("hit Temporary breakpoint 2");
  }
  void says(const char* text) { EXPECT_TRUE(command.expect(text)) << text << " in " << command.so_far().err; }

  Command command;
};

TEST(Debugger, TheTerminalAndControlCAreGdbs) {
  AtTerminal run("stay");
  run.command.type("print *shared\n");
  run.says("$1 = 42");
  run.command.type("continue\n");
  EXPECT_TRUE(run.command.expect("Continuing.", 2));
  run.command.type("\x03");
  run.says("received signal SIGINT");
  run.command.type("print released = 1\ncontinue\n");
  run.says("exited normally]");
  // Both clusters have ended, and the user still has gdb.
  run.command.type("print 6 * 7\n");
  run.says("$3 = 42");
  run.command.type("quit\n");
  EXPECT_EQ(run.command.wait().status, 0) << run.command.so_far().err;
  EXPECT_THAT(run.command.so_far().out, HasSubstr("[c1] cluster 1: 168\n"));
  EXPECT_THAT(run.command.left_over(), IsEmpty());
}

TEST(Debugger, AProcessInHandStaysWhenAnotherClusterFails) {
  AtTerminal run("leave");
  run.says("The process in the debugger ends when you quit gdb");
  // All others were killed within this time.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  run.command.type("print *shared\n");
  run.says("$1 = 42");
  run.command.type("quit\n");
  run.says("Quit anyway? (y or n)");
  run.command.type("y\n");
  EXPECT_EQ(run.command.wait().status, 3) << run.command.so_far().err;
  EXPECT_THAT(run.command.left_over(), IsEmpty());
}

TEST(Debugger, ASignalToTheCommandEndsTheDebuggerToo) {
  AtTerminal run("stay");
  run.command.signal(SIGTERM);
  EXPECT_EQ(run.command.wait().status, 128 + SIGTERM) << run.command.so_far().err;
  EXPECT_THAT(run.command.left_over(), IsEmpty());
}

// --- what is refused

TEST(Debugger, RefusesWithTheReason) {
  const TemporaryFile file("continue\n");
  const std::pair<Words, const char*> wrong[] = {
      {{"--gdb", "2.0"}, "--gdb: there is no cluster 2: --clusters 2 are numbered from 0"},
      {{"--gdb", "1.2"},
       "--gdb: cluster 1 has no compute node 2: --compute 2 are numbered from 0 in each cluster"},
      {{"--gdb", "1."}, "--gdb: '1.' is no CLUSTER.NODE, such as 1.0; both count from 0"},
      {{"--gdb", "-1.0"}, "--gdb: '-1.0' is no CLUSTER.NODE"},
      {{"--gdb-command", file.path()},
       "--gdb-command names commands for a debugger: --gdb CLUSTER.NODE starts one"},
      {{"--gdb", "1.0", "--gdb-command", "/nowhere"}, "--gdb-command: /nowhere cannot be read: No such file"},
  };
  for (const auto& [options, reason] : wrong) {
    const Finished finished = cli::testing::run(words(options));
    EXPECT_EQ(finished.status, 64) << reason;
    EXPECT_THAT(finished.err, HasSubstr(reason));
  }
  const std::string line = std::string(BRAID_COMMAND) + " run --gdb 1.0 " + BRAID_DEBUGGED_PROGRAM;
  const Finished silent = cli::testing::run({"/bin/sh", "-c", line + " </dev/null"});
  EXPECT_EQ(silent.status, 64);
  EXPECT_THAT(silent.err,
              HasSubstr("--gdb: standard input is no terminal, pipe or file, so gdb gets no commands"));
  const Finished missing = cli::testing::run({"/bin/sh", "-c", "PATH=/nowhere; " + line});
  EXPECT_EQ(missing.status, 64);
  EXPECT_THAT(missing.err, HasSubstr("--gdb: the debugger gdb is not in PATH; install it"));
  const Finished simulated =
      cli::testing::run({BRAID_COMMAND, "sim", "--gdb", "1.0", BRAID_DEBUGGED_PROGRAM});
  EXPECT_EQ(simulated.status, 64);
  EXPECT_THAT(simulated.err, HasSubstr("--gdb: a simulated cluster"));
}

TEST(Debugger, AProgramThatWaitsForNoDebuggerIsNamed) {
  const Finished finished = run({"--gdb", "1.0"}, "continue\n", {"/bin/true"});
  EXPECT_EQ(finished.status, 0);
  EXPECT_THAT(finished.err, HasSubstr("the program ended before gdb could attach to cluster 1"));
}

}  // namespace
}  // namespace braid
