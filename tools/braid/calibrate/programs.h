// The programs that a calibration runs. It runs them as users do:
// with the programs, `braid run` and `braid sim` of one folder.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

struct Program {
  std::string name;
  std::vector<std::string> arguments;

  std::string text() const;  // as a command line
};

// A program in two sizes. Each takes tens of milliseconds, or some milliseconds where the program prints microseconds; with
// its start and its verification none takes a second.
struct ProgramPair {
  Program priced;  // the price of a unit is measured with this one
  Program other;   // predicted with that price
};
const std::vector<ProgramPair>& calibration_programs();

// The shape of the machine that a program runs on; a cluster has one proxy.
struct MachineShape {
  unsigned clusters = 1;
  unsigned compute = 1;  // per cluster
};

// Returns a program's standard output; an error has the end of its standard error.
Result<std::string> output_of(const std::string& folder, const std::string& name,
                              const std::vector<std::string>& arguments);

// The time in seconds that a program printed for its parallel part; `command` is for the error.
Result<double> printed_seconds(const std::string& output, const std::string& command);

// The time of a program's parallel part in a simulation with a model (a path with a '/' in it).
Result<double> simulated_seconds(const std::string& folder, const std::string& model, MachineShape machine,
                                 const Program& program);

// The times of several live runs, ascending. With one compute node the program runs alone, without a daemon.
Result<std::vector<double>> live_seconds(const std::string& folder, MachineShape machine, unsigned runs,
                                         const Program& program);

}  // namespace braid::cli
