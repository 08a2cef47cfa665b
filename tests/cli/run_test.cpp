// `braid run` as users see it, with stand-ins for the daemon and the application: the output of each process, the
// causes of death, and that nothing is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "tests/cli/command.h"

namespace braid::cli {
namespace {

using ::testing::AllOf;
using testing::Command;
using ::testing::ContainsRegex;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TemporaryFile;
using Json = nlohmann::json;
using namespace std::chrono_literals;

class Run : public ::testing::Test {
 protected:
  Run() : shm_before_(testing::names_in("/dev/shm")) {}
  ~Run() override { EXPECT_EQ(testing::names_in("/dev/shm"), shm_before_); }

  static std::vector<std::string> line(std::vector<std::string> arguments, bool quiet = true) {
    arguments.insert(arguments.begin(), {BRAID_COMMAND, "run"});
    if (quiet) arguments.insert(arguments.begin() + 2, "--quiet");
    return arguments;
  }
  static Command::Variables fakes(const std::string& behaviour = "") {
    return {{"BRAID_BRAIDD", FAKE_BRAIDD}, {"FAKE_BRAIDD", behaviour}};
  }
  // Runs the stand-in with `steps` to the end, and expects that no process is left.
  static Finished run_app(const std::vector<std::string>& steps, const std::vector<std::string>& options = {},
                          const std::string& behaviour = "", const std::string& input = "") {
    std::vector<std::string> arguments = options;
    arguments.push_back(FAKE_APP);
    arguments.insert(arguments.end(), steps.begin(), steps.end());
    return cli::testing::run(line(arguments), fakes(behaviour), input);
  }

  const std::set<std::string> shm_before_;
};

// The process that `text` names: "application of cluster 1 (pid 123)".
pid_t pid_in(const std::string& json, const char* role, unsigned cluster) {
  return Json::parse(json)["clusters"][cluster][role]["pid"].get<pid_t>();
}

// A descendant whose command line contains `part`.
pid_t find(const Command& command, const std::string& part, int which = 0) {
  for (int tries = 0; tries < 500; ++tries) {
    int seen = 0;
    for (const auto& [pid, text] : command.processes()) {
      if (pid != command.pid() && text.starts_with(part) && seen++ == which) return pid;
    }
    std::this_thread::sleep_for(10ms);
  }
  return -1;
}

// The lines of `text` that begin with `prefix`. Lines of several processes are in any order.
std::string lines_of(const std::string& text, const std::string& prefix) {
  std::istringstream in(text);
  std::string lines;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(prefix)) lines += line + "\n";
  }
  return lines;
}

// --- output

TEST_F(Run, PrintsOutputOfEveryClusterWithItsPrefix) {
  const Finished run = run_app({"say=one", "complain=two"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("[c0] one\n"), HasSubstr("[c1] one\n")));
  EXPECT_THAT(run.err, AllOf(HasSubstr("[c0] two\n"), HasSubstr("[c1] two\n")));
  EXPECT_THAT(run.out, HasSubstr("[braidd 0] cluster 0 of 2, mtu 9000, 1 links\n"));
  EXPECT_THAT(run.out, Not(HasSubstr("two")));
}

TEST_F(Run, LosesNoByteOfALongOutput) {
  std::vector<std::string> steps;
  for (int i = 0; i < 300; ++i) steps.push_back("say=" + std::string(1000, 'x') + std::to_string(i));
  const Finished run = run_app(steps);
  EXPECT_EQ(run.status, 0);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = run.out.find("xxx\x30", at)) != std::string::npos; ++at) ++lines;
  for (int i = 0; i < 300; ++i) {
    EXPECT_THAT(run.out, HasSubstr("[c0] " + steps[static_cast<std::size_t>(i)].substr(4) + "\n"));
    EXPECT_THAT(run.out, HasSubstr("[c1] " + steps[static_cast<std::size_t>(i)].substr(4) + "\n"));
  }
}

TEST_F(Run, StandardInputGoesToCluster0Only) {
  const Finished run = run_app({"echo"}, {}, "", "a line\nanother\n");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(lines_of(run.out, "[c0] "), "[c0] read a line\n[c0] read another\n[c0] end of input\n");
  EXPECT_EQ(lines_of(run.out, "[c1] "), "[c1] end of input\n");
}

TEST_F(Run, EachClusterReadsAllOfStandardInputWhereAllAreToReadIt) {
  // More than pipes hold, and one cluster reads when the other has read it all.
  std::string text = "begin\n";
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  const Finished run = run_app({"1:sleep=0.5", "echo"}, {"--stdin", "all"}, "", text);
  EXPECT_EQ(run.status, 0) << run.err;
  for (const std::string cluster : {"[c0] ", "[c1] "}) {
    const std::string lines = lines_of(run.out, cluster);
    EXPECT_THAT(lines, AllOf(HasSubstr(cluster + "read begin\n"), HasSubstr(cluster + "read line 0\n"),
                             HasSubstr(cluster + "read line 19999\n" + cluster + "end of input\n")));
    EXPECT_EQ(testing::count(lines, "\n"), 20'002u);
  }
}

TEST_F(Run, EachClusterReadsAFileFromWhereItStands) {
  const TemporaryFile file("read by the shell\na line\nanother\n");
  const std::string shell =
      "read first; exec " + std::string(BRAID_COMMAND) + " run --quiet --stdin all " + FAKE_APP + " echo";
  const Finished run = testing::run({"/bin/bash", "-c", "{ " + shell + "; } < " + file.path()}, fakes());
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(lines_of(run.out, "[c0] "), "[c0] read a line\n[c0] read another\n[c0] end of input\n");
  EXPECT_EQ(lines_of(run.out, "[c1] "), "[c1] read a line\n[c1] read another\n[c1] end of input\n");
}

TEST_F(Run, ClusterThatEndsKeepsNoOtherFromReading) {
  std::string text(200'000, 'x');
  text += "\nlast\n";
  const Finished run = run_app({"1:exit=0", "echo"}, {"--stdin", "all"}, "", text);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(lines_of(run.out, "[c0] "), HasSubstr("[c0] read last\n[c0] end of input\n"));
}

TEST_F(Run, ClusterThatReadsNothingOfALongInputIsNamed) {
  const std::string shell = "yes " + std::string(1000, 'x') + " | head -c 80000000 | " + BRAID_COMMAND +
                            " run --quiet --stdin all " + FAKE_APP + " 1:hold echo > /dev/null";
  const Finished run = testing::run({"/bin/bash", "-c", shell}, fakes());
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(
      run.err,
      HasSubstr("braid: standard input: cluster 1 has left 64 MiB unread that another has read, and no "
                "more is kept for --stdin all; give the input as a file (< FILE)"));
}

TEST_F(Run, StandardInputGoesToNobody) {
  const Finished run = run_app({"echo"}, {"--stdin", "none"}, "", "a line\n");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(lines_of(run.out, "[c0] "), "[c0] end of input\n");
  EXPECT_EQ(lines_of(run.out, "[c1] "), "[c1] end of input\n");
  const Finished wrong = run_app({"echo"}, {"--stdin", "some"});
  EXPECT_EQ(wrong.status, 64);
  EXPECT_THAT(wrong.err, HasSubstr("--stdin some: standard input is read by the first cluster, all or none"));
}

TEST_F(Run, EndsWhenNobodyReadsItsOutput) {
  const std::string shell =
      std::string(BRAID_COMMAND) + " run --quiet " + FAKE_APP + " say=x sleep=0.2 say=y hold | head -1";
  const Finished run = testing::run({"/bin/bash", "-o", "pipefail", "-c", shell}, fakes());
  EXPECT_EQ(run.status, 128 + SIGPIPE);
  EXPECT_LT(run.seconds, 10);
}

// --- the environment of an application

TEST_F(Run, OutputThatCannotBeWrittenIsTheCauseOfTheFailure) {
  const Finished run = testing::run({"/bin/sh", "-c", "exec \"$@\" >/dev/full", "sh", BRAID_COMMAND, "run",
                                     "--quiet", FAKE_APP, "say=x", "sleep=30"},
                                    fakes());
  EXPECT_EQ(run.status, 70) << run.err;
  EXPECT_THAT(
      run.err,
      HasSubstr("braid: standard output cannot be written: No space left on device: make room on that file "
                "system, or name another; ending the run"));
}

TEST_F(Run, ApplicationGetsItsClusterInTheEnvironment) {
  const Finished run =
      run_app({"tell"}, {"--clusters", "3", "--compute", "4", "--heap-mib", "17", "--dispatch", "fixed",
                         "--window-kib", "64", "--protection", "mprotect"});
  for (const char* expected : {"[c2] BRAID_CLUSTER=2\n", "[c2] BRAID_CLUSTERS=3\n", "[c2] BRAID_COMPUTE=4\n",
                               "[c2] BRAID_HEAP_MIB=17\n", "[c2] BRAID_DISPATCH=fixed\n",
                               "[c2] BRAID_WINDOW_KIB=64\n", "[c2] BRAID_PROTECTION=mprotect\n",
                               "[c2] BRAID_SERVICE=@", "[c2] group own\n", "[c2] descriptor report\n"}) {
    EXPECT_THAT(run.out, HasSubstr(expected));
  }
  EXPECT_THAT(run.out, Not(HasSubstr("descriptor unknown")));
  EXPECT_THAT(run.out, Not(HasSubstr("BRAID_BRAIDD"))) << "its own variables are not the application's";
}

TEST_F(Run, OptionsOfTheApplicationAreNotParsed) {
  const Finished run = run_app({"tell", "--clusters", "7", "--help", "--", "-x", "--report=none"});
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* expected :
       {"[c0] argument --clusters\n", "[c0] argument 7\n", "[c0] argument --help\n", "[c0] argument --\n",
        "[c0] argument -x\n", "[c0] argument --report=none\n", "[c0] BRAID_CLUSTERS=2\n"})
    EXPECT_THAT(run.out, HasSubstr(expected));
}

TEST_F(Run, GivesEachClusterADaemonOfItsOwnToAttachTo) {
  EXPECT_THAT(run_app({"attach"}).out, AllOf(HasSubstr("[c0] attached"), HasSubstr("[c1] attached")));
}

TEST_F(Run, DaemonsGetTheirLinks) {
  const Finished run = run_app({}, {"--clusters", "4", "--mtu", "1400"});
  for (unsigned k = 0; k < 4; ++k)
    EXPECT_THAT(run.out, HasSubstr("cluster " + std::to_string(k) + " of 4, mtu 1400, 3 links\n"));
  EXPECT_THAT(run_app({}, {"--clusters", "1"}).out, HasSubstr("cluster 0 of 1, mtu 9000, 0 links\n"));
}

// --- the end of a run

TEST_F(Run, ReturnsTheStatusOfTheFirstProcessThatFails) {
  EXPECT_EQ(run_app({"exit=0"}).status, 0);
  const Finished run = run_app({"0:exit=3", "1:sleep=0.5", "1:exit=5"});
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err,
              ContainsRegex("braid: application of cluster [01] \\(pid [0-9]+\\) exited with status 3"));
}

TEST_F(Run, NamesTheApplicationThatWasKilled) {
  const Finished run = run_app({"1:raise=9", "0:ignore=15", "hold"});
  EXPECT_EQ(run.status, 137);
  EXPECT_LT(run.seconds, 5);
  EXPECT_THAT(
      run.err,
      ContainsRegex("braid: application of cluster 1 \\(pid [0-9]+\\) was killed by signal 9 \\(Killed\\); "
                    "ending the run\n"));
}

TEST_F(Run, ReportsTheFirstDeathNotItsConsequence) {
  // As the library does in the other clusters, perhaps before the kernel reports the first death.
  const Finished run = run_app({"0:exit=70", "1:raise=6"});
  EXPECT_THAT(run.err, ContainsRegex("application of cluster 1 .* was killed by signal 6"));
  EXPECT_THAT(run.err, Not(HasSubstr("cluster 0 (pid")));
  EXPECT_EQ(run.status, 134);
}

TEST_F(Run, OtherApplicationsMayPrintTheirErrors) {
  const Finished run = run_app({"1:exit=4", "0:sleep=0.5", "0:say=cluster 1 is gone", "0:exit=70"});
  EXPECT_THAT(run.out, HasSubstr("[c0] cluster 1 is gone\n"));
  EXPECT_THAT(run.err, ContainsRegex("application of cluster 1 .* exited with status 4; ending the run"));
  EXPECT_EQ(run.status, 4);
}

TEST_F(Run, EndsWhenAnApplicationIsKilledFromOutside) {
  Command command(line({FAKE_APP, "say=here", "hold"}), fakes());
  ASSERT_TRUE(command.expect("[c1] here"));
  const pid_t victim = find(command, FAKE_APP, 1);
  ASSERT_GT(victim, 0);
  const auto then = std::chrono::steady_clock::now();
  ::kill(victim, SIGKILL);
  const Finished& run = command.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - then, 5s);
  EXPECT_EQ(run.status, 137);
  EXPECT_THAT(run.err, ContainsRegex("application of cluster [01] \\(pid " + std::to_string(victim) +
                                     "\\) was killed by signal 9 \\(Killed\\); ending the run"));
  EXPECT_THAT(command.left_over(), IsEmpty());
}

TEST_F(Run, EndsWhenADaemonDies) {
  const Finished run = run_app({"1:attach", "ignore=15", "hold"}, {}, "dies");
  EXPECT_LT(run.seconds, 5);
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(run.err, ContainsRegex("braid: braidd of cluster 1 \\(pid [0-9]+\\) was killed by signal 6 "
                                     "\\(Aborted\\)"));
}

TEST_F(Run, EndsWhenADaemonIsKilledFromOutside) {
  Command command(line({FAKE_APP, "say=here", "hold"}), fakes());
  ASSERT_TRUE(command.expect("[c1] here"));
  const pid_t victim = find(command, "braidd", 0);
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  const auto then = std::chrono::steady_clock::now();
  EXPECT_EQ(command.wait().status, 70);
  EXPECT_LT(std::chrono::steady_clock::now() - then, 5s);
  EXPECT_THAT(command.so_far().err,
              HasSubstr("(pid " + std::to_string(victim) + ") was killed by signal 9 (Killed)"));
  EXPECT_THAT(command.left_over(), IsEmpty());
}

TEST_F(Run, NoProcessIsLeftWhenTheCommandIsKilled) {
  Command command(line({FAKE_APP, "ignore=15", "ignore=1", "orphan", "say=here", "hold"}), fakes("stubborn"));
  ASSERT_TRUE(command.expect("[c0] here"));
  ASSERT_TRUE(command.expect("[c1] here"));
  ASSERT_GE(command.processes().size(), 8u)
      << "itself, its keeper, two daemons, two applications with a child each";
  command.signal(SIGKILL);
  EXPECT_EQ(command.wait().status, 137);
  EXPECT_THAT(command.left_over(), IsEmpty());
}

TEST_F(Run, NoChildOfAnApplicationIsLeft) {
  EXPECT_EQ(run_app({"orphan", "say=done"}).status, 0);
}

// Whether a container (tools/braid/process/keeper.h) is permitted here: the kernel's answer to a process of this test, as
// user `id`.
bool container_is_permitted(uid_t id) {
#ifdef __SANITIZE_ADDRESS__
  return false;  // the command makes none there
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(id, id, id) != 0) ::_exit(1);
    ::_exit(::unshare(id == 0 ? CLONE_NEWPID : CLONE_NEWPID | CLONE_NEWUSER) == 0 ? 0 : 1);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

// The keeper names itself when it runs first, which may be after the applications have begun. -1: 30 s were not enough.
pid_t keeper_of(const Command& command) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  do {
    for (const auto& [pid, line] : command.processes()) {
      std::ifstream name("/proc/" + std::to_string(pid) + "/comm");
      std::string text;
      if (std::getline(name, text) && text == "braid-keeper") return pid;
    }
    std::this_thread::sleep_for(5ms);
  } while (std::chrono::steady_clock::now() < limit);
  return -1;
}

// As the user of the test, and if that is root also as another user.
class Escape : public Run {
 protected:
  static std::vector<uid_t> users() {
    const uid_t self = ::geteuid();
    return self == 0 ? std::vector<uid_t>{0, 65534} : std::vector<uid_t>{self};
  }
  static std::vector<std::string> as(uid_t user, std::vector<std::string> words) {
    if (user == ::geteuid()) return words;
    const std::string id = std::to_string(user);
    words.insert(words.begin(), {"/usr/bin/setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"});
    return words;
  }
  static void kill_command_and_keeper(bool keeper_first) {
    for (const uid_t user : users()) {
      SCOPED_TRACE(user);
      if (!container_is_permitted(user)) continue;
      Command command(as(user, line({FAKE_APP, "orphan", "escape", "say=here", "hold"})), fakes());
      ASSERT_TRUE(command.expect("[c0] here")) << command.so_far().err;
      ASSERT_TRUE(command.expect("[c1] here"));
      const pid_t keeper = keeper_of(command);
      ASSERT_GT(keeper, 0);
      if (keeper_first) ::kill(keeper, SIGKILL);
      command.signal(SIGKILL);
      if (!keeper_first) ::kill(keeper, SIGKILL);
      command.wait();
      EXPECT_THAT(command.left_over(), IsEmpty());
    }
  }
};

TEST_F(Escape, NoProcessIsLeftWhenCommandAndKeeperAreKilled) {
  kill_command_and_keeper(true);
}

TEST_F(Escape, NoProcessIsLeftWhenTheCommandIsKilledBeforeItsKeeper) {
  kill_command_and_keeper(false);
}

TEST_F(Escape, ProcessInASessionOfItsOwnEndsWithTheRun) {
  for (const uid_t user : users()) {
    SCOPED_TRACE(user);
    if (!container_is_permitted(user)) continue;
    Command command(as(user, line({FAKE_APP, "escape", "say=done"})), fakes());
    EXPECT_EQ(command.wait().status, 0) << command.so_far().err;
    EXPECT_THAT(command.left_over(), IsEmpty());
  }
}

// Without namespaces, as on systems that forbid them.
TEST_F(Escape, GroupsEndWithTheCommandWhereNoContainerIsPermitted) {
  if (!container_is_permitted(65534)) GTEST_SKIP() << "needs root and user namespaces";
  // In a user namespace whose limit is 0 no namespace can be made.
  Command command({"/usr/bin/setpriv",
                   "--reuid",
                   "65534",
                   "--regid",
                   "65534",
                   "--clear-groups",
                   "--",
                   "/usr/bin/unshare",
                   "-U",
                   "-r",
                   "/bin/sh",
                   "-c",
                   "echo 0 >/proc/sys/user/max_pid_namespaces && exec \"$@\"",
                   "sh",
                   BRAID_COMMAND,
                   "run",
                   "--quiet",
                   FAKE_APP,
                   "orphan",
                   "say=here",
                   "hold"},
                  fakes());
  ASSERT_TRUE(command.expect("[c0] here")) << command.so_far().err;
  ASSERT_TRUE(command.expect("[c1] here"));
  const pid_t keeper = keeper_of(command);
  ASSERT_GT(keeper, 0);
  std::error_code problem;
  EXPECT_EQ(std::filesystem::read_symlink("/proc/" + std::to_string(keeper) + "/ns/pid", problem),
            std::filesystem::read_symlink("/proc/self/ns/pid", problem));
  command.signal(SIGKILL);
  command.wait();
  EXPECT_THAT(command.left_over(), IsEmpty());
}

TEST_F(Run, KillsADaemonThatDoesNotEnd) {
  const Finished run = run_app({"say=done"}, {}, "stubborn");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_LT(run.seconds, 5);
}

TEST_F(Run, DaemonThatFailsAtTheEndIsReported) {
  const Finished run = run_app({"say=done"}, {}, "fails-late");
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(
      run.err,
      ContainsRegex("braidd of cluster 1 \\(pid [0-9]+\\) exited with status 9 when it was asked to end\n"));
}

// --- starting

TEST_F(Run, ReasonOfADaemonThatDoesNotStartIsReported) {
  const Finished run = run_app({"say=here"}, {}, "refuses");
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(run.err, HasSubstr("[braidd 1] this machine has no such device\n")) << "also without a newline";
  EXPECT_THAT(
      run.err,
      ContainsRegex("braidd of cluster 1 \\(pid [0-9]+\\) exited with status 5 before all clusters were "
                    "connected; ending the run"));
  EXPECT_THAT(run.out, Not(HasSubstr("here"))) << "no application was started";
  EXPECT_LT(run.seconds, 5);
}

TEST_F(Run, DaemonThatIsNotReadyInTimeFailsTheRun) {
  const Finished run = run_app({"say=here"}, {"--start-timeout", "300"}, "silent");
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(
      run.err,
      ContainsRegex("after 0.3 s the braidd of cluster 1 is not connected.*--start-timeout .now 300 ms"));
  EXPECT_LT(run.seconds, 5);
}

TEST_F(Run, ProgramThatCannotBeExecutedIsNamed) {
  const TemporaryFile script("echo no interpreter\n", 0700);
  const Finished run = testing::run(line({script.path()}), fakes());
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(run.err, HasSubstr("cannot start " + script.path() +
                                 ": Exec format error; a script must begin with #!"));
}

TEST_F(Run, MissingNetworkNamespaceIsNamed) {
  const TemporaryFile config(
      "clusters: 1\nwire: dpdk\ndpdk:\n  kind: af_packet\n  interfaces:\n"
      "    - {cluster: 0, netns: no-such-namespace, interface: a, address: 10.98.0.1}\n");
  const Finished run = testing::run(line({"--config", config.path(), FAKE_APP}), fakes());
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(run.err, HasSubstr("network namespace no-such-namespace (/var/run/netns/no-such-namespace)"));
  EXPECT_THAT(run.err, HasSubstr("'ip netns add no-such-namespace' makes it"));
}

// --- signals

TEST_F(Run, ForwardsSignalsToTheApplications) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    Command command(line({FAKE_APP, "catch=" + std::to_string(number), "say=here", "hold"}), fakes());
    ASSERT_TRUE(command.expect("[c0] here"));
    ASSERT_TRUE(command.expect("[c1] here"));
    command.signal(number);
    const Finished& run = command.wait();
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("[c0] caught " + std::to_string(number)));
    EXPECT_THAT(run.out, HasSubstr("[c1] caught " + std::to_string(number)));
    EXPECT_THAT(command.left_over(), IsEmpty());
  }
}

TEST_F(Run, SignalEndsTheRunWithItsStatus) {
  Command command(line({FAKE_APP, "say=here", "hold"}), fakes());
  ASSERT_TRUE(command.expect("[c0] here"));
  ASSERT_TRUE(command.expect("[c1] here"));
  command.signal(SIGINT);
  const Finished& run = command.wait();
  EXPECT_EQ(run.status, 130);
  EXPECT_THAT(run.err, Not(HasSubstr("was killed"))) << "nobody is blamed for what the user asked for";
}

TEST_F(Run, ApplicationThatIgnoresASignalIsKilledAfterThreeSeconds) {
  Command command(line({FAKE_APP, "ignore=2", "say=here", "hold"}), fakes());
  ASSERT_TRUE(command.expect("[c0] here"));
  ASSERT_TRUE(command.expect("[c1] here"));
  command.signal(SIGINT);
  const auto then = std::chrono::steady_clock::now();
  EXPECT_EQ(command.wait().status, 130) << "as the signal asked";
  const auto took = std::chrono::steady_clock::now() - then;
  EXPECT_GE(took, 2900ms);
  EXPECT_LT(took, 5s);
  EXPECT_THAT(command.so_far().err, HasSubstr("the application did not end in time; killing it"));
  EXPECT_THAT(command.left_over(), IsEmpty());
}

// Returns when the process has taken the signal, so that another one is not merged with it.
void wait_until_taken(pid_t process, int signal_number) {
  const std::string file = "/proc/" + std::to_string(process) + "/status", field = "ShdPnd:";
  for (bool pending = true; pending; std::this_thread::sleep_for(1ms)) {
    std::ifstream status(file);
    std::string word;
    while (status >> word && word != field) continue;
    if (!(status >> word)) return;  // it has ended
    pending = (std::stoull(word, nullptr, 16) >> (signal_number - 1) & 1) != 0;
  }
}

TEST_F(Run, ASecondSignalKillsAtOnce) {
  Command command(line({FAKE_APP, "ignore=2", "say=here", "hold"}), fakes("stubborn"));
  ASSERT_TRUE(command.expect("[c0] here"));
  ASSERT_TRUE(command.expect("[c1] here"));
  command.signal(SIGINT);
  wait_until_taken(command.pid(), SIGINT);
  const auto then = std::chrono::steady_clock::now();
  command.signal(SIGINT);
  EXPECT_EQ(command.wait().status, 130);
  EXPECT_LT(std::chrono::steady_clock::now() - then, 2900ms) << "sooner than after one signal";
  EXPECT_THAT(command.left_over(), IsEmpty());
}

TEST_F(Run, CanBeInterruptedWhileItStarts) {
  Command command(line({FAKE_APP, "say=here"}), fakes("silent"));
  ASSERT_TRUE(command.expect("[braidd 0]"));
  command.signal(SIGINT);
  EXPECT_EQ(command.wait().status, 130);
  EXPECT_THAT(command.so_far().out, Not(HasSubstr("here")));
  EXPECT_THAT(command.left_over(), IsEmpty());
}

// --- at a terminal

TEST_F(Run, KeyboardGoesToCluster0) {
  // The application's process group is not the terminal's, so it would be stopped if it read from the terminal.
  Command terminal(line({FAKE_APP, "say=ready", "echo"}), fakes(), "", Command::Input::kTerminal);
  ASSERT_TRUE(terminal.expect("[c0] ready"));
  terminal.type("typed\n");
  ASSERT_TRUE(terminal.expect("[c0] read typed\n"));
  terminal.type("more\n");
  ASSERT_TRUE(terminal.expect("[c0] read more\n"));
  terminal.type("\4");  // control-D
  EXPECT_EQ(terminal.wait().status, 0) << terminal.so_far().out << terminal.so_far().err;
  EXPECT_THAT(terminal.so_far().out,
              AllOf(HasSubstr("[c0] end of input\n"), HasSubstr("[c1] end of input\n")));
}

TEST_F(Run, KeyboardGoesToAllClusters) {
  std::vector<std::string> words = line({"--stdin", "all", FAKE_APP, "say=ready", "echo"});
  Command terminal(words, fakes(), "", Command::Input::kTerminal);
  ASSERT_TRUE(terminal.expect("ready", 2));
  terminal.type("typed\n");
  ASSERT_TRUE(terminal.expect("read typed\n", 2));
  terminal.type("\4");  // control-D
  EXPECT_EQ(terminal.wait().status, 0) << terminal.so_far().out << terminal.so_far().err;
  EXPECT_THAT(terminal.so_far().out,
              AllOf(HasSubstr("[c0] end of input\n"), HasSubstr("[c1] end of input\n")));
}

TEST_F(Run, ControlCReachesEveryApplication) {
  Command terminal(line({FAKE_APP, "catch=2", "say=ready", "hold"}), fakes(), "", Command::Input::kTerminal);
  ASSERT_TRUE(terminal.expect("[c0] ready"));
  ASSERT_TRUE(terminal.expect("[c1] ready"));
  terminal.type("\3");
  EXPECT_EQ(terminal.wait().status, 0) << terminal.so_far().out << terminal.so_far().err;
  EXPECT_THAT(terminal.so_far().out, AllOf(HasSubstr("[c0] caught 2"), HasSubstr("[c1] caught 2")));
  EXPECT_THAT(terminal.left_over(), IsEmpty());
}

// --- two at once

TEST_F(Run, TwoRunsDoNotInterfere) {
  Command first(line({FAKE_APP, "attach", "tell", "hold"}), fakes());
  Command second(line({FAKE_APP, "attach", "tell", "say=done"}), fakes());
  ASSERT_TRUE(first.expect("[c0] BRAID_SERVICE=@"));
  ASSERT_TRUE(first.expect("[c1] BRAID_SERVICE=@"));
  EXPECT_EQ(second.wait().status, 0);
  const auto service = [](const std::string& text, const std::string& cluster) {
    const std::size_t at = text.find(cluster + " BRAID_SERVICE=@");
    return text.substr(at + 5, text.find('\n', at) - at - 5);
  };
  std::set<std::string> services;
  for (const char* cluster : {"[c0]", "[c1]"}) {
    services.insert(service(first.so_far().out, cluster));
    services.insert(service(second.so_far().out, cluster));
  }
  EXPECT_EQ(services.size(), 4u);
  EXPECT_FALSE(first.processes().empty()) << "the other run's end is not its end";
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().status, 143);
}

// --- the report

TEST_F(Run, PrintsTheReportUnlessQuiet) {
  const Finished told = testing::run(line({FAKE_APP}, false), fakes());
  EXPECT_THAT(told.err, HasSubstr("2 clusters of 2 compute nodes and 1 proxy, wire shm, dispatch rr\n"));
  EXPECT_THAT(told.err, HasSubstr("duplicates 3"));
  EXPECT_THAT(testing::run(line({FAKE_APP}), fakes()).err, Not(HasSubstr("compute nodes")));
}

TEST_F(Run, ReportsEverythingAsJson) {
  const TemporaryFile file(std::string(100'000, ' '));
  const Finished run = run_app(
      {"0:report={\"cluster\": 0, \"nodes\": [{\"node\": 0, \"read_faults\": 5}]}", "1:report=broken"},
      {"--report", file.path(), "--proxies", "2", "--seed", "9"});
  EXPECT_EQ(run.status, 0) << run.err;
  const Json json = Json::parse(file.text());
  EXPECT_EQ(json["configuration"]["proxies"], 2);
  EXPECT_EQ(json["configuration"]["wire"], "shm");
  EXPECT_EQ(json["seed"], 9);
  EXPECT_EQ(json["status"], 0);
  EXPECT_TRUE(json["failure"].is_null());
  EXPECT_GT(json["wall_seconds"].get<double>(), 0);
  EXPECT_EQ(json["command"][0], FAKE_APP);
  ASSERT_EQ(json["clusters"].size(), 2u);
  EXPECT_EQ(json["clusters"][1]["proxies"][1]["messages_sent"], 1002);
  EXPECT_EQ(json["clusters"][1]["proxies"][1]["duplicates"], 3);
  EXPECT_EQ(json["totals"]["misdirected"], 28);
  EXPECT_EQ(json["clusters"][0]["application"]["report"]["nodes"][0]["read_faults"], 5);
  EXPECT_EQ(json["clusters"][0]["application"]["end"], "exited with status 0");
  EXPECT_TRUE(json["clusters"][1]["application"]["report"].is_null());
  EXPECT_EQ(json["clusters"][1]["application"]["report_text"], "broken");
}

TEST_F(Run, ReportsARunThatFailedToo) {
  const TemporaryFile file;
  const Finished run = run_app({"1:attach", "hold"}, {"--report", file.path()}, "dies");
  const Json json = Json::parse(file.text());
  EXPECT_EQ(json["status"], 70);
  EXPECT_THAT(json["failure"].get<std::string>(), HasSubstr("was killed by signal 6"));
  EXPECT_EQ(json["clusters"][1]["proxies"][0]["messages_sent"], 1001) << "also of a daemon that was killed";
  EXPECT_GT(pid_in(file.text(), "braidd", 1), 0);
  EXPECT_EQ(run.status, 70);
}

TEST_F(Run, RefusesAReportThatCannotBeWrittenBeforeAnythingStarts) {
  const Finished run = run_app({"say=here"}, {"--report", "/nonexistent/run.json"});
  EXPECT_EQ(run.status, 73);
  EXPECT_THAT(run.err,
              HasSubstr("--report: /nonexistent/run.json cannot be written: No such file or directory"));
  EXPECT_THAT(run.out, IsEmpty());
}

// --- the command line

TEST_F(Run, HelpIsPrinted) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"run", "--help"}, {"help", "run"}}) {
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.begin(), BRAID_COMMAND);
    const Finished help = testing::run(arguments);
    EXPECT_EQ(help.status, 0);
    for (const char* option :
         {"--clusters", "--compute", "--proxies", "--dispatch", "--wire", "--config", "--report",
          "--heap-mib", "--loss", "--duplicate", "--reorder", "--corrupt", "--seed", "--mtu", "--quiet",
          "Usage: braid run [options] application", "Examples:"})
      EXPECT_THAT(help.out, HasSubstr(option));
  }
  const Finished help = testing::run({BRAID_COMMAND, "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out,
              AllOf(HasSubstr("run"), HasSubstr("help"), HasSubstr("--version"), HasSubstr("Examples:")));
  EXPECT_EQ(testing::run({BRAID_COMMAND, "help"}).out, help.out);
  const Finished version = testing::run({BRAID_COMMAND, "--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, ContainsRegex("^braid [0-9]+\\.[0-9]+\\.[0-9]+\n$"));
}

TEST_F(Run, RefusesWrongUsageWithACure) {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = arguments;
    all.insert(all.begin(), BRAID_COMMAND);
    const Finished run = testing::run(all, fakes());
    EXPECT_EQ(run.status, 64) << run.err;
    EXPECT_THAT(run.out, Not(HasSubstr("[c0]")));
    return run.err;
  };
  EXPECT_THAT(refusal({"rum"}), HasSubstr("there is no command 'rum'; did you mean 'run'?"));
  EXPECT_THAT(refusal({"jacobi"}), HasSubstr("To run an application: braid run jacobi"));
  EXPECT_THAT(refusal({"help", "walk"}), HasSubstr("help: there is no command 'walk'"));
  EXPECT_THAT(refusal({"run"}), HasSubstr("which application?"));
  EXPECT_THAT(refusal({"run", "--clutsers", "3", FAKE_APP}),
              HasSubstr("--clutsers is not an option (did you mean --clusters?)"));
  EXPECT_THAT(refusal({"run", "--clusters", "1025", FAKE_APP}),
              HasSubstr("--clusters: 1025 is out of range; allowed: 1 to 1024"));
  EXPECT_THAT(refusal({"run", "--loss", "2", FAKE_APP}), HasSubstr("--loss: 2 is out of range"));
  EXPECT_THAT(refusal({"run", "--clusters"}), HasSubstr("--clusters"));
  EXPECT_THAT(refusal({"run", "no-such-application"}),
              AllOf(HasSubstr("application 'no-such-application' is neither in "), HasSubstr("nor in PATH")));
  EXPECT_THAT(refusal({"run", "./no-such-application"}),
              HasSubstr("./no-such-application: there is no such file"));
  EXPECT_THAT(refusal({"run", "/tmp"}), HasSubstr("/tmp is a folder, not an application"));
  const TemporaryFile data("text");
  EXPECT_THAT(refusal({"run", data.path()}), HasSubstr("is not executable; chmod +x it"));
}

TEST_F(Run, RefusesAWrongConfigurationWithItsPlace) {
  const TemporaryFile config("clusters: 2\ncomptue: 3\n", 0600, ".yaml");
  const Finished run = testing::run(line({"--config", config.path(), FAKE_APP}), fakes());
  EXPECT_EQ(run.status, 78);
  EXPECT_EQ(run.err,
            "braid: " + config.path() + ":2:1: key 'comptue': is not known; did you mean 'compute'?\n");
  EXPECT_EQ(testing::run(line({"--misdirect", FAKE_APP}), fakes()).status, 78);
}

TEST_F(Run, FlagsOverrideTheFile) {
  const TemporaryFile config("clusters: 4\nproxies: 2\nmisdirect: true\n");
  const TemporaryFile report;
  const Finished run = run_app(
      {}, {"--config", config.path(), "--clusters", "3", "--misdirect=false", "--report", report.path()});
  EXPECT_EQ(run.status, 0) << run.err;
  const Json json = Json::parse(report.text())["configuration"];
  EXPECT_EQ(json["clusters"], 3);
  EXPECT_EQ(json["proxies"], 2);
  EXPECT_EQ(json["misdirect"], false);
}

TEST_F(Run, MissingDaemonIsReportedWithItsFolder) {
  const Finished run = testing::run(line({FAKE_APP}), {{"BRAID_BRAIDD", "/nonexistent/braidd"}});
  EXPECT_EQ(run.status, 70);
  EXPECT_THAT(run.err, HasSubstr("BRAID_BRAIDD is '/nonexistent/braidd', which cannot be executed"));
}

}  // namespace
}  // namespace braid::cli
