// Runs for tests: programs on several clusters, started by `braid run` as users start them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "tests/cli/command.h"

namespace braid::live::testing {

using cli::testing::Command;
using cli::testing::Finished;
using cli::testing::TemporaryFile;
using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class BraidRun : public ::testing::Test {
 protected:
  BraidRun() : shm_before_(cli::testing::names_in("/dev/shm")) {}
  ~BraidRun() override { EXPECT_EQ(cli::testing::names_in("/dev/shm"), shm_before_); }

  struct Outcome {
    Finished finished;
    Json report;
  };
  // To the end; no process and no shared memory may be left.
  static Outcome run(const Words& options, const Words& program) {
    const TemporaryFile report;
    Command command(Words{BRAID_COMMAND, "run", "--report", report.path()} + options + program);
    const Finished finished = command.wait(std::chrono::seconds(120));
    EXPECT_THAT(command.left_over(), ::testing::IsEmpty());
    return {finished, Json::parse(report.text(), nullptr, false)};
  }
  static Outcome expect_verified(const Words& options, const Words& program) {
    Outcome outcome = run(options, program);
    EXPECT_EQ(outcome.finished.status, 0) << outcome.finished.out << outcome.finished.err;
    EXPECT_THAT(outcome.finished.out, ::testing::AllOf(::testing::HasSubstr(", verified\n"),
                                                       ::testing::Not(::testing::HasSubstr("WRONG"))));
    return outcome;
  }
  static std::uint64_t total(const Json& report, const char* counter) {
    return report["totals"][counter].get<std::uint64_t>();
  }

  const std::set<std::string> shm_before_;
};

// A program that runs for longer than any test waits, and its processes.
class EndlessRun {
 public:
  EndlessRun(const Words& options, const Words& program)
      : program_(program.front()),
        report_(),
        command(Words{BRAID_COMMAND, "run", "--report", report_.path()} + options + program) {}

  // Process number `which` whose command line begins with `name`, once pages are being sent.
  pid_t find(const std::string& name, unsigned which) const {
    const auto limit = Clock::now() + std::chrono::seconds(30);
    while (Clock::now() < limit) {
      std::vector<pid_t> found;
      for (const auto& [pid, line] : command.processes()) {
        if (pid != command.pid() && line.starts_with(name)) found.push_back(pid);
      }
      if (found.size() > which && sends_pages(found[which])) return found[which];
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return -1;
  }
  pid_t application(unsigned which) const { return find(program_, which); }
  pid_t daemon(unsigned which) const { return application(0) < 0 ? -1 : find("braidd ", which); }
  // Waits for the end; returns the seconds from now until then.
  double time_to_end() {
    const auto then = Clock::now();
    command.wait(std::chrono::seconds(60));
    return std::chrono::duration<double>(Clock::now() - then).count();
  }
  Json report() const { return Json::parse(report_.text(), nullptr, false); }

 private:
  // By the counters of its daemon; of a daemon itself it is assumed.
  static bool sends_pages(pid_t pid) {
    const Finished counters =
        cli::testing::run({BRAID_COMMAND, "counters", "--process", std::to_string(pid), "--all"});
    if (counters.err.find("has no BRAID_SERVICE") != std::string::npos) return true;
    const std::size_t at = counters.out.find("messages_received");
    return at != std::string::npos && std::stoull(counters.out.substr(at + 17)) > 100;
  }

  const std::string program_;
  const TemporaryFile report_;

 public:
  Command command;
};

}  // namespace braid::live::testing
