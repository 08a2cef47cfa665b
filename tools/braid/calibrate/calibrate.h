// Makes a cost model of this host. braid-times measures the stages. Programs that run alone
// determine the price of a unit of the compiler's charges, one price per program. Then the model
// predicts live runs that it was not fitted to, and the error of each prediction is measured.
//
// Live runs are compared only if the host has a processor for each of their threads, as the model has.
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
  bool quick = false;  // fewer repetitions: tests that it works; the figures are not reliable
};

struct Calibration {
  struct Cost {
    double cycles = 0;
    std::string source;
  };
  std::string processor;  // its name in /proc/cpuinfo
  std::string day;        // 2026-11-22
  double clock_mhz = 0;
  std::string clock_source;
  double load = 0;  // runnable threads in the minute before, on average
  unsigned cores = 1;
  std::map<std::string, Cost> costs;  // by the names of settings::cost_settings()
  // A program that ran alone, and in a simulation that counted its computing.
  struct Priced {
    std::string name;
    std::string command;
    double units = 0;
    std::vector<double> seconds;  // of live runs, ascending
    // By the least time, the one that other processes disturbed least.
    double cycles_per_unit(double clock_mhz) const { return seconds.front() * clock_mhz * 1e6 / units; }
  };
  std::vector<Priced> programs;
};

// A program's own time, predicted by a simulation and measured in live runs.
struct Prediction {
  // The price of its computing: its own unit from another run, or the mean of other programs' units.
  enum class Unit : std::uint8_t { kOwn, kOthers };

  std::string command;
  Unit unit = Unit::kOwn;
  unsigned clusters = 1;
  unsigned compute = 1;  // nodes of each
  double predicted_seconds = 0;
  std::vector<double> measured_seconds;  // ascending; empty: not compared

  // The threads of a live run; one cluster needs no proxy.
  unsigned threads() const { return clusters > 1 ? clusters * (compute + 1) : compute; }
  bool compared() const { return !measured_seconds.empty(); }
  // Only valid if compared().
  double least() const { return measured_seconds.front(); }
  double median() const { return measured_seconds[measured_seconds.size() / 2]; }
  // 0.1: the predicted time is 10 % too long.
  double error() const { return predicted_seconds / median() - 1; }
  double error_of_least() const { return predicted_seconds / least() - 1; }
};

// Called with a line of text at the beginning of each measurement.
using Progress = std::function<void(const std::string&)>;

// Measures stages and programs. The error names what could not be run.
Result<Calibration> calibrate(const CalibrationOptions& options, const Progress& tell);

// Each program's time alone, predicted from the other programs' units.
std::vector<Prediction> leave_one_out(const Calibration& calibration);
// Predicts runs that calibrate() did not use: another problem size, two compute nodes, two clusters.
// Measures those for which the host has a processor per thread. `model`: a path with a '/' in it.
Result<std::vector<Prediction>> predict(const CalibrationOptions& options, const Calibration& calibration,
                                        const std::string& model, const Progress& tell);

// A file of configs/models. Its comment has the table of predictions, if there are any.
std::string render_model(const Calibration& calibration, const std::vector<Prediction>& predictions);
// The table of predictions, the ranges of their errors, and notes on the conditions.
std::string render_text(const Calibration& calibration, const std::vector<Prediction>& predictions);

}  // namespace braid::cli
