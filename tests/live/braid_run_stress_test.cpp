// Every application on four clusters of four compute nodes, many more threads than there are processors: over
// a wire that loses packets, and with processes that are killed in the middle.
//
//   BRAID_STRESS_ALL=1    kills every process of every application's run, one run for each, not just some
#include <signal.h>

#include <cstdlib>
#include <ostream>

#include "tests/live/braid_run.h"

namespace braid {
namespace {

using namespace live::testing;  // NOLINT
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr unsigned kClusters = 4;
const Words kFourByFour = {"--clusters", "4", "--compute", "4", "--proxies", "2", "--loss", "0.01"};

struct Program {
  const char* name;
  Words usual;    // the paper's size, or what is left of it in a second
  Words endless;  // longer than any test waits
};
void PrintTo(const Program& program, std::ostream* out) {
  *out << program.name;
}
const Program kPrograms[] = {
    {"gauss", {BRAID_GAUSS}, {BRAID_GAUSS, "--size", "3000"}},
    {"jacobi", {BRAID_JACOBI, "--size", "1024"}, {BRAID_JACOBI, "--size", "256", "--iterations", "1000000"}},
    {"matmul", {BRAID_MATMUL}, {BRAID_MATMUL, "--size", "3000"}},
    {"tsp", {BRAID_TSP}, {BRAID_TSP, "--cities", "18", "--depth", "6", "--queue", "lock"}},
    {"water", {BRAID_WATER}, {BRAID_WATER, "--iterations", "1000000"}},
};

class Stress : public BraidRun, public ::testing::WithParamInterface<Program> {
 protected:
  // Kills one process while pages are being sent; the run must end, name that process, and leave nothing.
  void expect_end_after_death_of(bool daemon, unsigned which) const {
    SCOPED_TRACE(std::string("kills ") + (daemon ? "braidd" : "the application's process") + " number " +
                 std::to_string(which));
    EndlessRun run(kFourByFour, GetParam().endless);
    const pid_t victim = daemon ? run.daemon(which) : run.application(which);
    ASSERT_GT(victim, 0) << run.command.so_far().out << run.command.so_far().err;
    ::kill(victim, SIGKILL);
    // Ten seconds are the peer-death time, which none of this needs; two dozen threads on few processors do.
    EXPECT_LT(run.time_to_end(), 10.0);
    const Finished& finished = run.command.so_far();
    EXPECT_EQ(finished.status, daemon ? 70 : 137) << finished.err;
    EXPECT_THAT(
        finished.err,
        ContainsRegex(std::string("braid: ") + (daemon ? "braidd" : "application") +
                      " of cluster [0-3] \\(pid " + std::to_string(victim) +
                      "\\) was killed by signal 9 \\(Killed\\)( before finish\\(\\))?; ending the run"));
    EXPECT_THAT(finished.out, Not(HasSubstr("verified")));
    EXPECT_THAT(run.command.left_over(), IsEmpty());
  }
};

INSTANTIATE_TEST_SUITE_P(Programs, Stress, ::testing::ValuesIn(kPrograms),
                         [](const auto& program) { return std::string(program.param.name); });

TEST_P(Stress, ResultsAreRightOverABadWire) {
  for (const char* dispatch : {"fixed", "rr"}) {
    for (const char* seed : {"1", "2"}) {
      SCOPED_TRACE(std::string("--dispatch ") + dispatch + " --seed " + seed);
      const Outcome o =
          expect_verified(kFourByFour + Words{"--dispatch", dispatch, "--seed", seed}, GetParam().usual);
      EXPECT_GT(total(o.report, "retransmissions"), 0u);
    }
  }
}

TEST_P(Stress, KilledProcessEndsTheRunAndIsNamed) {
  if (std::getenv("BRAID_STRESS_ALL") != nullptr) {
    for (unsigned which = 0; which < kClusters; ++which) {
      for (const bool daemon : {false, true}) expect_end_after_death_of(daemon, which);
    }
    return;
  }
  // One of each kind, others for every program.
  const auto index = static_cast<unsigned>(std::string(GetParam().name).size());
  expect_end_after_death_of(false, index % kClusters);
  expect_end_after_death_of(true, (index + 1) % kClusters);
}

}  // namespace
}  // namespace braid
