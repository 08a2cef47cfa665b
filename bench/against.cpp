#include "bench/against.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json.h"
#include "base/process_end.h"
#include "bench/two_processes.h"

namespace braid::bench {
namespace {

using Numbers = std::map<std::string, std::vector<double>>;

// `words` from the program on.
Result<void> run_once(std::vector<std::string> words) {
  const std::string program = words.front();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int problem = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return error("{}: cannot be run: {}", program, std::strerror(problem));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (status != 0) return error("{}: {}", program, describe_end(status));
  return {};
}

// The command that runs a program, by `braid run` if that is to have options.
std::vector<std::string> command(const std::string& program, const std::vector<std::string>& run_options) {
  if (run_options.empty()) return {program};
  const std::filesystem::path path = std::filesystem::canonical(program);
  std::vector<std::string> words = {path.parent_path() / "braid", "run", "--quiet"};
  words.insert(words.end(), run_options.begin(), run_options.end());
  words.push_back(path);
  return words;
}

Result<void> measure(const std::string& program, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& run_options, Numbers* numbers) {
  const std::string file =
      fmt::format("{}/braid-against-{}.json", std::filesystem::temp_directory_path().string(), ::getpid());
  std::vector<std::string> words = command(program, run_options);
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--rounds", "1", "--json", file});
  const Result<void> has_run = run_once(words);
  std::ifstream in(file);
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  ::unlink(file.c_str());
  if (!has_run) return has_run;
  if (json.is_discarded()) return error("{}: wrote no figures as JSON to {}", program, file);
  const nlohmann::json flat = json.flatten();
  for (const auto& [name, value] : flat.items())
    if (value.is_number()) (*numbers)[name].push_back(value.get<double>());
  return {};
}

}  // namespace

Result<std::vector<Compared>> compare(const std::string& ours, const std::string& other,
                                      const std::vector<std::string>& arguments, int rounds,
                                      const std::vector<std::string>& run_options) {
  Numbers our_numbers, other_numbers;
  for (int round = 0; round < rounds; ++round) {
    if (const Result<void> done = measure(ours, arguments, run_options, &our_numbers); !done)
      return done.error();
    if (const Result<void> done = measure(other, arguments, run_options, &other_numbers); !done)
      return done.error();
  }
  std::vector<Compared> compared;
  for (const auto& [name, values] : our_numbers)
    if (other_numbers.contains(name))
      compared.push_back({name, median(values), median(other_numbers.at(name))});
  return compared;
}

void OutputOptions::add_to(CLI::App& app) {
  app.add_option("--json", json, "write the figures there too")->type_name("FILE");
  app.add_option("--percentiles", percentiles,
                 "write the latencies of each operation there too, as HdrHistogram prints them")
      ->check(CLI::ExistingDirectory);
  app.add_option("--against", against,
                 "another build of this program: run both alternately and print the ratios of their figures")
      ->check(CLI::ExistingFile);
}

std::optional<int> run_against(const OutputOptions& options, int argc, char** argv, int rounds,
                               const std::vector<std::string>& run_options) {
  if (options.against.empty()) return {};
  if (!run_options.empty() && std::getenv("BRAID_CLUSTER") != nullptr) {
    fmt::print(stderr, "--against: start this program without `braid run`: it runs both builds with it\n");
    return 1;
  }
  const Result<std::vector<Compared>> compared =
      compare("/proc/self/exe", options.against,
              arguments_without(argc, argv, {"--against", "--rounds", "--json"}), rounds, run_options);
  if (!compared) {
    fmt::print(stderr, "--against: {}\n", compared.error().text);
    return 1;
  }
  fmt::print("{:60} {:>12} {:>12} {:>7}   medians of {} rounds, alternately\n", "", "this build", "other",
             "ratio", rounds);
  for (const Compared& c : *compared)
    fmt::print("{:60} {:12.3f} {:12.3f} {:7.3f}\n", c.name, c.ours, c.other, c.ours / c.other);
  return 0;
}

std::vector<std::string> arguments_without(int argc, char** argv, const std::vector<std::string>& options) {
  std::vector<std::string> kept;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_left_out = std::find(options.begin(), options.end(), word) != options.end();
    const bool has_value = std::any_of(options.begin(), options.end(),
                                       [&](const std::string& o) { return word.starts_with(o + "="); });
    if (is_left_out) ++i;
    if (!is_left_out && !has_value) kept.push_back(word);
  }
  return kept;
}

}  // namespace braid::bench
