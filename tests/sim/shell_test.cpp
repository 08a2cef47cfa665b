// Programs in a shell: what they ask the engine for, in which order their nodes run, and how they end.
#include "sim/shell/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsm/api.h"
#include "tests/sim/shell_machine.h"

namespace braid::sim {
namespace {

// --- The applications, in the flavour for simulations

struct App {
  std::string name;
  std::vector<std::string> arguments;
};

class Apps : public testing::TestWithParam<App> {};

TEST_P(Apps, AreVerifiedOnMachinesOfShells) {
  for (const auto& [clusters, compute] : {std::pair{1, 1}, {1, 4}, {4, 1}, {2, 3}}) {
    ShellMachine machine({.clusters = static_cast<std::uint16_t>(clusters),
                          .compute = static_cast<std::uint16_t>(compute),
                          .heap_pages = 4096});
    std::vector<std::string> command = GetParam().arguments;
    command.insert(command.begin(), BRAID_PROGRAMS + GetParam().name);
    machine.start(command);
    for (const ShellMachine::Ending& ending : machine.run()) {
      EXPECT_EQ(ending.exit_status, 0)
          << clusters << " x " << compute << ": signal " << ending.signal << " " << ending.text;
    }
    EXPECT_EQ(machine.trouble(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(, Apps,
                         testing::Values(App{"gauss", {"--size", "48"}}, App{"jacobi", {"--size", "64"}},
                                         App{"jacobi", {"--size", "64", "--intra", "tbb"}},
                                         App{"matmul", {"--size", "48"}},
                                         App{"matmul", {"--size", "48", "--intra", "tbb"}},
                                         App{"tsp", {"--cities", "9"}}, App{"water", {"--molecules", "27"}}),
                         [](const testing::TestParamInfo<App>& app) {
                           return app.param.name + (app.param.arguments.back() == "tbb" ? "Tbb" : "");
                         });

}  // namespace
}  // namespace braid::sim
