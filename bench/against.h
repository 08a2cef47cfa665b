// Two builds of a benchmark, alternately: other load of the machine affects both alike. And the options that every
// benchmark has for it and for its output.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace braid::bench {

// A number that both programs write: the medians of the rounds.
struct Compared {
  std::string name;  // its place in the file, as a JSON pointer
  double ours = 0;
  double other = 0;
};

// Runs two programs in turn, `rounds` times each, with `arguments`, "--rounds 1" and "--json FILE". With `run_options` not
// empty each is started by `braid run` with these options, by the braid in its own folder. An error: a program could not
// be run, failed, or wrote no JSON.
Result<std::vector<Compared>> compare(const std::string& ours, const std::string& other,
                                      const std::vector<std::string>& arguments, int rounds,
                                      const std::vector<std::string>& run_options = {});

// --json, --percentiles and --against. Empty: not given.
struct OutputOptions {
  std::string json;         // file
  std::string percentiles;  // folder
  std::string against;      // program

  void add_to(CLI::App& app);
};

// For main(), after its options are parsed: with --against, compares this program with the other build, prints a table with
// the ratios, and returns the exit status. `run_options` as above; such a program is started without `braid run` then.
std::optional<int> run_against(const OutputOptions& options, int argc, char** argv, int rounds,
                               const std::vector<std::string>& run_options = {});

// The command line without its first word, and without these options and their values.
std::vector<std::string> arguments_without(int argc, char** argv, const std::vector<std::string>& options);

}  // namespace braid::bench
