// Makes a cost model of this machine: the stages as braid-times has timed them, the price of what the
// compiler's charges count from programs that run alone, for each program its own; and says how well a
// simulation with it foretells live runs that it was not fitted to.
//
// Live runs are compared where they are like what is simulated: with a processor for each of their threads.
//
// Whatever is run, is run as users do: the programs, `braid run` and `braid sim` beside this command.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

struct CalibrationOptions {
  std::string folder;  // of the command and the programs
  bool quick = false;  // fewer repetitions: to see that it works, not to believe it
};

struct Calibration {
  struct Cost {
    double cycles = 0;
    std::string source;
  };
  std::string processor;  // as it calls itself
  std::string day;        // 2026-11-22
  double clock_mhz = 0;
  std::string clock_source;
  double load = 0;  // threads that wanted a processor in the minute before, on average
  unsigned cores = 1;
  std::map<std::string, Cost> costs;  // by the names of settings::cost_settings()
  // A program that ran alone, and in a simulation that counted what it computes.
  struct Priced {
    std::string name;
    std::string command;
    double units = 0;
    std::vector<double> seconds;  // that it took live, ascending
    // The least is what other users of the machine have added least to.
    double cycles_per_unit(double clock_mhz) const { return seconds.front() * clock_mhz * 1e6 / units; }
  };
  std::vector<Priced> programs;
};

// A program's own time as the simulation foretells it and as live runs measured it.
struct Prediction {
  // Whose price its computing has: that of itself, from another run; or the mean of other programs'.
  enum class Unit : std::uint8_t { kOwn, kOthers };

  std::string command;
  Unit unit = Unit::kOwn;
  unsigned clusters = 1;
  unsigned compute = 1;  // nodes of each
  double predicted_seconds = 0;
  std::vector<double> measured_seconds;  // ascending; empty: not compared

  // That a live run has: one cluster needs no proxy.
  unsigned threads() const { return clusters > 1 ? clusters * (compute + 1) : compute; }
  bool compared() const { return !measured_seconds.empty(); }
  // Of those that are compared.
  double least() const { return measured_seconds.front(); }
  double median() const { return measured_seconds[measured_seconds.size() / 2]; }
  // Of the prediction: 0.1 is a tenth too long.
  double error() const { return predicted_seconds / median() - 1; }
  double error_of_least() const { return predicted_seconds / least() - 1; }
};

// Told what is being done, for a person who waits.
using Progress = std::function<void(const std::string&)>;

Result<Calibration> calibrate(const CalibrationOptions& options, const Progress& tell);

// Each program's time alone if nothing but the others were known.
std::vector<Prediction> leave_one_out(const Calibration& calibration);
// Simulates the programs as calibrate() did not run them: another problem, two compute nodes, two clusters;
// and runs them so where the machine has a processor for each thread. `model`: a path, with a '/' in it.
Result<std::vector<Prediction>> predict(const CalibrationOptions& options, const Calibration& calibration,
                                        const std::string& model, const Progress& tell);

// A file of configs/models, with what came of the predictions, if there are any, as a comment.
std::string render_model(const Calibration& calibration, const std::vector<Prediction>& predictions);
// A table, and what is to be known to judge it.
std::string render_text(const Calibration& calibration, const std::vector<Prediction>& predictions);

}  // namespace braid::cli
