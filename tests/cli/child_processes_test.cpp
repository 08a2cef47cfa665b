// Child processes: the reports of their ends, their output, and that none of them is left.
#include "tools/braid/process/child_processes.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "base/clock.h"
#include "base/process_end.h"
#include "tools/braid/process/pipe.h"

namespace braid::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Duration kTimeout = 20_s;

std::string contents(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

Descriptor memory() {
  return Descriptor(::memfd_create("output", MFD_CLOEXEC));
}

// A zombie is not running, even if nobody waits for it.
bool is_running(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return false;
  const char state = line[line.rfind(')') + 2];
  return state != 'Z' && state != 'X';
}

// Waits for the condition; false if it does not become true in time.
bool eventually(const std::function<bool()>& what) {
  for (const Instant end = monotonic_now() + kTimeout; monotonic_now() < end; ::usleep(2000)) {
    if (what()) return true;
  }
  return what();
}

// Restores after each test the process state that the manager changes.
class ChildProcessesTest : public ::testing::Test {
 protected:
  ChildProcessesTest() {
    ::sigprocmask(SIG_SETMASK, nullptr, &mask_);
    for (int signal = 1; signal < 32; ++signal) ::sigaction(signal, nullptr, &actions_[signal]);
  }
  ~ChildProcessesTest() override {
    children_.reset();
    for (int signal = 1; signal < 32; ++signal) {
      if (signal != SIGKILL && signal != SIGSTOP) ::sigaction(signal, &actions_[signal], nullptr);
    }
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }

  ChildProcesses& children() {
    if (!children_) {
      Result<ChildProcesses> made =
          ChildProcesses::create({.signals = {SIGUSR1}, .out_fd = out_.get(), .err_fd = err_.get()});
      EXPECT_TRUE(made.ok()) << made.error().text;
      children_.emplace(std::move(*made));
    }
    return *children_;
  }

  static ProcessOptions shell(const std::string& script) {
    return {.path = "/bin/sh", .arguments = {"sh", "-c", script}, .environment = {"PATH=/bin:/usr/bin"}};
  }
  ChildId start(const std::string& script, const std::string& prefix = "",
                Instant deadline = Instant::never()) {
    const Result<ChildId> child = children().start(shell(script), prefix, deadline);
    EXPECT_TRUE(child.ok()) << child.error().text;
    return *child;
  }
  // A turn of a command's loop.
  void turn(Instant until) {
    children().wait(until);
    for (const int signal : children().take_signals()) signals_.push_back(signal);
    for (const EndedChild& ended : children().take_ended()) ended_.push_back(ended);
    children().output().write_some();
  }
  bool turn_until(const std::function<bool()>& what) {
    const Instant end = monotonic_now() + kTimeout;
    while (!what() && monotonic_now() < end) turn(monotonic_now() + 100_ms);
    return what();
  }
  void run_all() {
    ASSERT_TRUE(turn_until([&] { return !children().any_alive(); }));
  }
  std::string out() const { return contents(out_.get()); }
  std::string err() const { return contents(err_.get()); }
  // The process whose number a script has printed as "child N".
  pid_t printed_pid() {
    EXPECT_TRUE(
        turn_until([&] { return out().find("child ") != std::string::npos && out().back() == '\n'; }));
    const pid_t printed = std::stoi(out().substr(out().find("child ") + 6));
    pid_t seen = -1;
    EXPECT_TRUE(eventually([&] { return (seen = seen_from_here(printed)) > 0; })) << "no process " << printed;
    return seen;
  }
  // A process number inside a container differs from the one outside. -1: it does not sleep yet.
  static pid_t seen_from_here(pid_t printed) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream status(entry.path() / "status");
      for (std::string line; std::getline(status, line);) {
        std::istringstream words(line);
        std::string word, last;
        words >> word;
        if (word != "NSpid:") continue;
        while (words >> word) last = word;
        // Only a sleeping process: other containers may have the same numbers.
        std::ifstream comm(entry.path() / "comm");
        if (last == std::to_string(printed) && std::getline(comm, word) && word == "sleep")
          return std::stoi(entry.path().filename());
      }
    }
    return -1;
  }

  Descriptor out_ = memory();
  Descriptor err_ = memory();
  std::optional<ChildProcesses> children_;
  std::vector<EndedChild> ended_;
  std::vector<int> signals_;

 private:
  sigset_t mask_;
  struct sigaction actions_[32]{};
};

// A script that starts a long sleep in its process group, and prints the child's number.
constexpr const char* kWithChild = "sleep 1000 & echo child $!; ";

TEST_F(ChildProcessesTest, ReportsHowEachChildEnded) {
  const ChildId good = start("exit 0"), bad = start("exit 3"), dead = start("kill -SEGV $$");
  run_all();
  ASSERT_EQ(ended_.size(), 3u);
  for (const EndedChild& e : ended_) {
    EXPECT_FALSE(e.timed_out);
    EXPECT_FALSE(children().is_alive(e.child));
    EXPECT_EQ(shell_status(e.wait_status), e.child == good ? 0 : e.child == bad ? 3 : 128 + SIGSEGV);
    EXPECT_EQ(WIFSIGNALED(e.wait_status), e.child == dead);
  }
}

TEST_F(ChildProcessesTest, ReportsAnEndOnce) {
  start("exit 0");
  run_all();
  EXPECT_EQ(ended_.size(), 1u);
  EXPECT_THAT(children().take_ended(), IsEmpty());
}

TEST_F(ChildProcessesTest, RelaysLinesWithTheirPrefix) {
  start("echo one; echo two >&2; printf three", "[a] ");
  run_all();
  start("echo one; echo two >&2", "[b] ");
  run_all();
  EXPECT_EQ(out(), "[a] one\n[a] three\n[b] one\n");
  EXPECT_EQ(err(), "[a] two\n[b] two\n");
}

TEST_F(ChildProcessesTest, OutputIsReadBeforeAnEndIsReported) {
  start("i=0; while [ $i -lt 2000 ]; do echo line $i of some length; i=$((i+1)); done", "");
  run_all();
  EXPECT_THAT(out(), HasSubstr("\nline 1999 of some length\n"));
}

TEST_F(ChildProcessesTest, OutputIsRedirectedByOptions) {
  const Descriptor file = memory();
  ProcessOptions options = shell("echo one; echo two >&2");
  options.output_fd = file.get();
  ASSERT_TRUE(children().start(options, "[a] ").ok());
  run_all();
  EXPECT_EQ(contents(file.get()), "one\ntwo\n");
  EXPECT_EQ(out(), "");
}

TEST_F(ChildProcessesTest, GroupEndsWithItsHead) {
  start(std::string(kWithChild) + "sleep 2; exit 0");
  const pid_t grandchild = printed_pid();
  run_all();
  EXPECT_TRUE(eventually([&] { return !is_running(grandchild); }));
}

TEST_F(ChildProcessesTest, GroupIsKilledAtTheDeadline) {
  const ChildId child = start(std::string(kWithChild) + "wait", "", monotonic_now() + 1_s);
  const pid_t grandchild = printed_pid();
  run_all();
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].child, child);
  EXPECT_TRUE(ended_[0].timed_out);
  EXPECT_EQ(WTERMSIG(ended_[0].wait_status), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_running(grandchild); }));
}

TEST_F(ChildProcessesTest, EndBeforeTheDeadlineIsNoTimeout) {
  start("kill -KILL $$", "", monotonic_now() + kTimeout);
  run_all();
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_FALSE(ended_[0].timed_out);
}

TEST_F(ChildProcessesTest, EndBeforeTheDeadlineThatIsSeenLaterIsNoTimeout) {
  const Instant deadline = monotonic_now() + 1_ms;
  const ChildId child = start("exit 3", "", deadline);
  ASSERT_TRUE(eventually([&] { return !is_running(children().pid(child)) && monotonic_now() > deadline; }));
  run_all();
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(WEXITSTATUS(ended_[0].wait_status), 3);
  EXPECT_FALSE(ended_[0].timed_out);
}

TEST_F(ChildProcessesTest, FindsChildrenIfItsParentIgnoresSigchld) {
  ::signal(SIGCHLD, SIG_IGN);
  start("exit 3");
  run_all();
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(WEXITSTATUS(ended_[0].wait_status), 3);
}

TEST_F(ChildProcessesTest, SignalsOfAChildAreDefaultExceptThoseTheParentIgnores) {
  ::signal(SIGHUP, SIG_IGN);
  start("grep -E '^Sig(Blk|Ign):' /proc/self/status");
  run_all();
  const unsigned hangup = 1u << (SIGHUP - 1);
  EXPECT_EQ(out(), fmt::format("SigBlk:\t{:016x}\nSigIgn:\t{:016x}\n", 0, hangup));
}

TEST_F(ChildProcessesTest, TakesTheConfiguredSignals) {
  children();
  ::kill(::getpid(), SIGUSR1);
  start("exit 0");
  run_all();
  EXPECT_THAT(signals_, ElementsAre(SIGUSR1)) << "and no SIGCHLD";
}

// Prints which of the two processes of a group received SIGUSR1.
constexpr const char* kBothListen =
    "sh -c 'trap \"echo second got it\" USR1; echo second; while :; do sleep 0.01; done' & "
    "trap 'echo first got it' USR1; echo first; while :; do sleep 0.01; done";

TEST_F(ChildProcessesTest, SendsToTheHeadAloneOrToItsGroup) {
  const ChildId child = start(kBothListen);
  ASSERT_TRUE(
      turn_until([&] { return contents(out_.get()).size() == std::string("first\nsecond\n").size(); }));
  children().send(child, SIGUSR1);
  ASSERT_TRUE(turn_until([&] { return out().find("first got it") != std::string::npos; }));
  EXPECT_THAT(out(), Not(HasSubstr("second got it")));
  children().send_to_group(child, SIGUSR1);
  EXPECT_TRUE(turn_until([&] { return out().find("second got it") != std::string::npos; }));
}

TEST_F(ChildProcessesTest, StopAllLeavesNoProcessAndReportsNoEnd) {
  start(std::string(kWithChild) + "wait");
  const pid_t grandchild = printed_pid();
  children().stop_all();
  EXPECT_FALSE(children().any_alive());
  EXPECT_THAT(children().take_ended(), IsEmpty());
  EXPECT_TRUE(eventually([&] { return !is_running(grandchild); }));
}

TEST_F(ChildProcessesTest, DestructorLeavesNoProcess) {
  const ChildId child = start(std::string(kWithChild) + "wait");
  const pid_t head = children().pid(child), grandchild = printed_pid();
  children_.reset();
  EXPECT_TRUE(eventually([&] { return !is_running(head) && !is_running(grandchild); }));
}

TEST_F(ChildProcessesTest, KilledCommandLeavesNoProcess) {
  Pipe pipe = std::move(*make_pipe());
  const pid_t command = ::fork();
  if (command == 0) {
    start(std::string(kWithChild) + "wait");
    const pid_t grandchild = printed_pid();
    (void)!::write(pipe.write.get(), &grandchild, sizeof grandchild);
    ::kill(::getpid(), SIGKILL);
  }
  pid_t grandchild = -1;
  ASSERT_EQ(::read(pipe.read.get(), &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  int status = 0;
  ASSERT_EQ(::waitpid(command, &status, 0), command);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_running(grandchild); }));
}

TEST_F(ChildProcessesTest, WaitsUntilATimeIfNothingHappens) {
  start("sleep 1000");
  turn(monotonic_now());  // the start may have raised something
  const Instant begun = monotonic_now();
  children().wait(begun + 50_ms);
  EXPECT_GE(monotonic_now() - begun, 50_ms);
  EXPECT_LT(monotonic_now() - begun, kTimeout);
}

TEST_F(ChildProcessesTest, WaitsForTheCallersDescriptorsToo) {
  Result<Pipe> pipe = make_pipe();
  ASSERT_TRUE(pipe.ok());
  ASSERT_EQ(::write(pipe->write.get(), "x", 1), 1);
  pollfd also[] = {{-1, POLLIN, 0}, {pipe->read.get(), POLLIN, 0}};
  children().wait(monotonic_now() + kTimeout, also);
  EXPECT_EQ(also[0].revents, 0);
  EXPECT_EQ(also[1].revents, POLLIN);
}

TEST_F(ChildProcessesTest, ReasonOfAProgramThatDoesNotStartIsReported) {
  const Result<ChildId> child = children().start({.path = "/nonexistent/program", .arguments = {"program"}});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().text, "cannot start /nonexistent/program: No such file or directory");
  EXPECT_FALSE(children().any_alive());
}

TEST_F(ChildProcessesTest, RunsAProgramToItsEndAndReturnsWhatItWrote) {
  ::signal(SIGPIPE, SIG_IGN);
  const Result<FinishedProcess> run = run_process(shell(
      "i=0; while [ $i -lt 9000 ]; do echo to the one output; echo to the other >&2; i=$((i+1)); done; exit 4"));
  ASSERT_TRUE(run.ok()) << run.error().text;
  EXPECT_EQ(WEXITSTATUS(run->wait_status), 4);
  EXPECT_EQ(run->out.size(), 9000 * std::string("to the one output\n").size());
  EXPECT_EQ(run->err.size(), 9000 * std::string("to the other\n").size());
}

// --- the relay alone, with pipes instead of processes

struct Relay {
  Pipe source = std::move(*make_pipe());
  Pipe reader = std::move(*make_pipe());
  Descriptor errors = memory();
  OutputRelay relay{reader.write.get(), errors.get()};

  Relay() {
    Process process;
    process.out = std::move(source.read);
    ::fcntl(process.out.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(source.write.get(), F_SETFL, O_NONBLOCK);
    relay.add(process, "> ");
  }
  // As many bytes as the pipe holds.
  std::size_t write(const std::string& text) {
    const ssize_t n = ::write(source.write.get(), text.data(), text.size());
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  void carry() {
    relay.read_some();
    relay.write_some();
  }
};

TEST(OutputRelay, SlowReaderStopsTheSourcesAndLosesNothing) {
  Relay r;
  const std::string line = std::string(99, 'x') + "\n";
  std::size_t written = 0;
  while (r.relay.is_reading()) {
    written += r.write(line.substr(written % line.size()));
    r.carry();
  }
  EXPECT_GE(written, Sink::kMuchBytes / 2) << "it takes a lot before it stops";
  std::vector<pollfd> fds;
  r.relay.watch(fds);
  ASSERT_EQ(fds.size(), 1u) << "only the reader is waited for";
  EXPECT_EQ(fds[0].fd, r.reader.write.get());

  r.write(line.substr(written % line.size()));
  r.source.write.close();
  std::string read;
  ::fcntl(r.reader.read.get(), F_SETFL, O_NONBLOCK);
  while (r.relay.is_open() || !r.relay.is_written()) {
    char bytes[65536];
    const ssize_t n = ::read(r.reader.read.get(), bytes, sizeof bytes);
    if (n > 0) read.append(bytes, static_cast<std::size_t>(n));
    r.carry();
  }
  char bytes[65536];
  for (ssize_t n; (n = ::read(r.reader.read.get(), bytes, sizeof bytes)) > 0;)
    read.append(bytes, static_cast<std::size_t>(n));
  const std::size_t lines = read.size() / (line.size() + 2);
  std::string expected;
  for (std::size_t i = 0; i < lines; ++i) expected += "> " + line;
  EXPECT_EQ(read, expected);
  EXPECT_GE(lines * line.size(), written);
}

TEST(OutputRelay, ClosedReaderIsReportedOnce) {
  ::signal(SIGPIPE, SIG_IGN);
  Relay r;
  r.reader.read.close();
  r.write("line\n");
  EXPECT_FALSE(r.relay.take_output_failure());
  r.carry();
  EXPECT_TRUE(r.relay.take_output_failure());
  EXPECT_FALSE(r.relay.take_output_failure());
  EXPECT_TRUE(r.relay.is_written()) << "nothing is kept for nobody";
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(OutputRelay, UnfinishedLineIsPrintedWhenSourcesAreClosed) {
  Relay r;
  r.write("whole\nhalf");
  r.carry();
  EXPECT_TRUE(r.relay.is_open());
  r.relay.close_sources();
  EXPECT_FALSE(r.relay.is_open());
  r.relay.report("it is over");
  r.relay.write_some();
  char bytes[100];
  const ssize_t n = ::read(r.reader.read.get(), bytes, sizeof bytes);
  EXPECT_EQ(std::string(bytes, n > 0 ? static_cast<std::size_t>(n) : 0), "> whole\n> half\n");
  EXPECT_EQ(contents(r.errors.get()), "braid: it is over\n");
}

}  // namespace
}  // namespace braid::cli
