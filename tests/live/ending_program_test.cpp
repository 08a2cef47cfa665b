// Programs that end before finish(), in every way: the run has the status of the first that ends, and its cluster,
// compute node, address and calls are named before anything else is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "tests/cli/command.h"

namespace braid {
namespace {

using cli::testing::Command;
using cli::testing::Finished;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// With `nodes` in two clusters; node `ends` ends, in cluster ends / 2.
Finished run(const std::string& how, unsigned ends) {
  return cli::testing::run({BRAID_COMMAND, "run", "--quiet", "--clusters", "2", "--compute", "2",
                            BRAID_ENDING_PROGRAM, how, std::to_string(ends)});
}

std::string application(unsigned cluster) {
  return "braid: application of cluster " + std::to_string(cluster) + " \\(pid [0-9]+\\) ";
}

// Messages about the cluster that lost the other one must follow the cause.
void expect_cause_first(const std::string& errors, const std::string& cause) {
  const std::size_t lost = errors.find("lost cluster");
  EXPECT_THAT(errors.substr(0, lost), ContainsRegex(cause)) << errors;
}

TEST(EndingProgram, ExitInAComputeNodeIsTheCauseAndItsStatusIsTheRuns) {
  for (const unsigned node : {0u, 1u, 2u, 3u}) {
    SCOPED_TRACE(node);
    const Finished finished = run("exit", node);
    EXPECT_EQ(finished.status, 3) << finished.err;
    expect_cause_first(finished.err, application(node / 2) +
                                         "exited with status 3 before finish\\(\\) in compute node " +
                                         std::to_string(node) + "; ending the run\n");
  }
}

TEST(EndingProgram, ProcessThatEndsWithStatus0BeforeFinishIsTheCause) {
  for (const unsigned node : {1u, 2u}) {
    SCOPED_TRACE(node);
    const Finished exits = run("exit-0", node);
    EXPECT_EQ(exits.status, 70) << exits.err;
    expect_cause_first(exits.err, application(node / 2) +
                                      "exited with status 0 before finish\\(\\) in compute node " +
                                      std::to_string(node));
    const Finished returns = run("return", node);
    EXPECT_EQ(returns.status, 70) << returns.err;
    expect_cause_first(returns.err, application(node / 2) + "exited with status 0 before finish\\(\\)");
  }
}

TEST(EndingProgram, ProcessThatEndsWithoutAWordIsTheCause) {
  const Finished exits = run("_exit", 1);
  EXPECT_EQ(exits.status, 4) << exits.err;
  expect_cause_first(exits.err, application(0) + "exited with status 4 before finish\\(\\);");
  const Finished killed = run("kill", 1);
  EXPECT_EQ(killed.status, 128 + SIGKILL) << killed.err;
  expect_cause_first(killed.err, application(0) + "was killed by signal 9 \\(Killed\\)");
}

TEST(EndingProgram, AFailureOfTheRuntimeIsTheCause) {
  const Finished finished = run("throw", 3);
  EXPECT_EQ(finished.status, 70);
  EXPECT_THAT(finished.err,
              StartsWith("[c1] braid: compute node 3: an exception left the function given to parallel(): "
                         "the reason\n"));
  expect_cause_first(finished.err, application(1) + "exited with status 70; ending the run\n");
}

TEST(EndingProgram, AProgramThatClosesTheRuntimesDescriptorsIsTheCause) {
  for (const unsigned node : {1u, 2u}) {
    for (const char* how : {"close-all", "close-really-all"}) {
      SCOPED_TRACE(how);
      const Finished finished = run(how, node);
      EXPECT_EQ(finished.status, 70) << finished.err;
      EXPECT_LT(finished.seconds, 10);
      expect_cause_first(finished.err, "the program has closed a descriptor of the runtime, ");
      EXPECT_THAT(finished.err, ContainsRegex(application(node / 2) + "exited with status 70"));
    }
  }
}

TEST(EndingProgram, AProgramThatForbidsItselfSharedMemoryIsTheCause) {
  for (const unsigned node : {1u, 2u}) {
    const Finished refused = run("mprotect", node);
    EXPECT_EQ(refused.status, 70) << refused.err;
    expect_cause_first(
        refused.err,
        "mprotect\\(\\) in .*end_in_node.* at .*ending_program.cpp:[0-9]+ is not available for "
        "shared memory: ");
    const Finished forbids = run("mprotect-by-number", node);
    EXPECT_EQ(forbids.status, 70) << forbids.err;
    EXPECT_LT(forbids.seconds, 10);
    expect_cause_first(forbids.err, "compute node " + std::to_string(node) +
                                        ": address 0x[0-9a-f]+ of shared memory stays forbidden");
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(EndingProgram, AProgramThatUnmapsSharedMemoryCrashesThere) {
  const Finished finished = run("munmap", 1);
  EXPECT_EQ(finished.status, 128 + SIGSEGV) << finished.err;
  expect_cause_first(finished.err,
                     "compute node 1: Segmentation fault at address 0x[0-9a-f]+, where nothing is mapped");
}
#endif

struct Crash {
  const char* how;
  int signal;
  const char* first_line;  // behind the cluster and the compute node
  const char* in_trace;
  const char* address;  // in the reason; a regular expression
};

class CrashOf : public ::testing::TestWithParam<Crash> {};

TEST_P(CrashOf, IsNamedWithClusterNodeAddressAndCalls) {
  const Crash& crash = GetParam();
  for (const unsigned node : {1u, 2u}) {
    const Finished finished = run(crash.how, node);
    const std::string cluster = std::to_string(node / 2);
    EXPECT_EQ(finished.status, 128 + crash.signal) << finished.err;
    EXPECT_THAT(finished.err,
                ContainsRegex("^\\[c" + cluster + "\\] braid: cluster " + cluster + ", compute node " +
                              std::to_string(node) + ": " + crash.first_line + "\n"));
    EXPECT_THAT(finished.err, ContainsRegex("braid:   #[0-9]+ .*" + std::string(crash.in_trace)));
    expect_cause_first(finished.err, application(node / 2) + "was killed by signal " +
                                         std::to_string(crash.signal) + " \\(.*\\).* in compute node " +
                                         std::to_string(node) + crash.address + "; ending the run\n");
  }
}

// Sanitizers report crashes themselves, on a stack and with a status of their own.
#if defined(__SANITIZE_ADDRESS__)
INSTANTIATE_TEST_SUITE_P(EndingProgram, CrashOf,
                         ::testing::Values(Crash{"abort", SIGABRT, "Aborted", "end_in_node", ""}),
                         [](const auto&) { return std::string("Abort"); });
#else
INSTANTIATE_TEST_SUITE_P(
    EndingProgram, CrashOf,
    ::testing::Values(Crash{"write", SIGSEGV, "Segmentation fault at address 0x10, where nothing is mapped",
                            "write_to.* at .*ending_program.cpp:[0-9]+", " at address 0x10"},
                      Crash{"write-forbidden", SIGSEGV,
                            "Segmentation fault at address 0x[0-9a-f]+, which does not permit it", "write_to",
                            " at address 0x[0-9a-f]+"},
                      Crash{"write-nowhere", SIGSEGV,
                            "Segmentation fault: a pointer has a value that no address has", "write_to", ""},
                      Crash{"call", SIGSEGV, "Segmentation fault at address 0x0, where nothing is mapped",
                            "end_in_node", " at address 0x0"},
                      Crash{"recurse", SIGSEGV, "Segmentation fault at address 0x[0-9a-f]+, .*", "recurse",
                            " at address 0x[0-9a-f]+"},
                      Crash{"divide", SIGFPE, "Floating point exception", "end_in_node", ""},
                      Crash{"abort", SIGABRT, "Aborted", "end_in_node", ""},
                      Crash{"trap", SIGILL, "Illegal instruction", "end_in_node", ""},
                      Crash{"raise", SIGSEGV, "Segmentation fault, sent by a process", "end_in_node", ""}),
    [](const auto& parameter) {
      std::string name = parameter.param.how;
      std::erase(name, '-');
      return name;
    });
#endif

TEST(EndingProgram, RunThatEndsWithFinishHasNoCause) {
  const Finished finished = run("not at all", 1);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_THAT(finished.err, Not(HasSubstr("finish")));
}

}  // namespace
}  // namespace braid
