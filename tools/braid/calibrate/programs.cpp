#include "tools/braid/calibrate/programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "tools/braid/process/process.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {
namespace {

constexpr std::size_t kShownErrorBytes = 2000;

std::vector<std::string> machine_options(MachineShape machine) {
  return {"--clusters", std::to_string(machine.clusters),
          "--compute",  std::to_string(machine.compute),
          "--proxies",  "1"};
}

std::vector<std::string> command_line(const char* command, std::vector<std::string> options,
                                      const Program& program) {
  options.insert(options.begin(), command);
  options.push_back(program.name);
  options.insert(options.end(), program.arguments.begin(), program.arguments.end());
  return options;
}

Result<double> run_and_read_seconds(const std::string& folder, const std::string& name,
                                    const std::vector<std::string>& arguments) {
  const Result<std::string> output = output_of(folder, name, arguments);
  if (!output) return output.error();
  return printed_seconds(*output, fmt::format("{} {}", name, fmt::join(arguments, " ")));
}

}  // namespace

std::string Program::text() const {
  return fmt::format("{} {}", name, fmt::join(arguments, " "));
}

const std::vector<ProgramPair>& calibration_programs() {
  static const std::vector<ProgramPair> all = {
      {{"jacobi", {"--size", "512", "--iterations", "100"}},
       {"jacobi", {"--size", "1024", "--iterations", "40"}}},
      {{"matmul", {"--size", "384"}}, {"matmul", {"--size", "512"}}},
      {{"gauss", {"--size", "512"}}, {"gauss", {"--size", "768"}}},
      {{"water", {"--molecules", "343", "--iterations", "4"}},
       {"water", {"--molecules", "512", "--iterations", "4"}}},
      {{"tsp", {"--cities", "14"}}, {"tsp", {"--cities", "16"}}},
      {{"fft", {"--points", "65536"}}, {"fft", {"--points", "131072"}}},
      {{"barnes", {"--bodies", "1024", "--iterations", "3"}},
       {"barnes", {"--bodies", "2048", "--iterations", "2"}}},
      {{"unstructured", {"--nodes", "1000", "--edges", "6000", "--iterations", "20"}},
       {"unstructured", {"--nodes", "2800", "--edges", "17377", "--iterations", "10"}}}};
  return all;
}

Result<std::string> output_of(const std::string& folder, const std::string& name,
                              const std::vector<std::string>& arguments) {
  ProcessOptions options;
  options.path = folder + "/" + name;
  options.arguments = {name};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.environment = merge_environment(environ, {});
  const Result<FinishedProcess> run = run_process(options);
  if (!run) return run.error();
  const std::string& err = run->err;
  if (run->wait_status != 0)
    return error("{} {} failed: {}", name, fmt::join(arguments, " "),
                 err.empty() ? "it wrote nothing on standard error"
                             : err.substr(err.size() < kShownErrorBytes ? 0 : err.size() - kShownErrorBytes));
  return run->out;
}

Result<double> printed_seconds(const std::string& output, const std::string& command) {
  static const std::regex pattern(R"(: ([0-9]+\.[0-9]+) s, verified)");
  std::smatch found;
  if (!std::regex_search(output, found, pattern))
    return error("{} did not print a time and 'verified', but: {}", command, output);
  return std::strtod(found[1].str().c_str(), nullptr);
}

Result<double> simulated_seconds(const std::string& folder, const std::string& model, MachineShape machine,
                                 const Program& program) {
  std::vector<std::string> options = machine_options(machine);
  options.insert(options.begin(), {"--quiet", "--model", model});
  return run_and_read_seconds(folder, "braid", command_line("sim", std::move(options), program));
}

Result<std::vector<double>> live_seconds(const std::string& folder, MachineShape machine, unsigned runs,
                                         const Program& program) {
  constexpr double kShortestSeconds = 5e-4;  // programs print milliseconds
  std::vector<std::string> options = machine_options(machine);
  options.insert(options.begin(), "--quiet");
  const bool alone = machine.clusters == 1 && machine.compute == 1;
  std::vector<double> times;
  for (unsigned run = 0; run < runs; ++run) {
    const Result<double> seconds =
        alone ? run_and_read_seconds(folder, program.name, program.arguments)
              : run_and_read_seconds(folder, "braid", command_line("run", options, program));
    if (!seconds) return seconds.error();
    times.push_back(std::max(*seconds, kShortestSeconds));
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace braid::cli
