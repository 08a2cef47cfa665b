#include "tools/braid/calibrate/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>

#include "base/clock.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/system_error.h"
#include "settings/cost_model.h"
#include "tools/braid/calibrate/programs.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/process/process.h"

namespace braid::cli {
namespace {

constexpr const char* kCheck = "check";
constexpr double kCheckCycles = 3;
constexpr const char* kUnit = "unit";  // the one cost that is measured with programs

struct Effort {
  unsigned samples, runs_alone, runs;
};
Effort effort_of(const CalibrationOptions& options) {
  return options.quick ? Effort{10, 3, 1} : Effort{200, 25, 15};
}

// A file that exists while this object lives, for other programs to read.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text) {
    file_ = Descriptor(::mkstemp(path_.data()));
    problem_ = !file_ ? errno : write_all(file_.get(), text);
  }
  ~ScratchFile() {
    if (file_) ::unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int problem() const { return problem_; }  // errno; 0: all of it was written
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/braid-calibrate-XXXXXX";
  Descriptor file_;
  int problem_ = 0;
};

// --- This host

// The value of the first line of /proc/cpuinfo that begins with `key`.
std::optional<std::string> cpuinfo(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

void describe_machine(Calibration& c) {
  c.processor = cpuinfo("model name").value_or("a processor without a name");
  const std::optional<std::string> mhz = cpuinfo("cpu MHz");
  c.clock_mhz = mhz ? std::strtod(mhz->c_str(), nullptr) : 0;
  c.clock_source = "'cpu MHz' of /proc/cpuinfo, by which measured nanoseconds became cycles";
  if (!(c.clock_mhz > 0)) {
    c.clock_mhz = 1000;
    c.clock_source = "/proc/cpuinfo has none: a cycle stands for a nanosecond";
  }
  c.cores = usable_cores();
  if (::getloadavg(&c.load, 1) != 1) c.load = 0;
  const Duration unix_time = monotonic_now() - Instant() + unix_time_of_monotonic_zero();
  const auto seconds = static_cast<std::time_t>(unix_time.s());
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  c.day = fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

Result<void> time_stages(const CalibrationOptions& options, Calibration& c) {
  const Result<std::string> output =
      output_of(options.folder, "braid-times", {"--samples", std::to_string(effort_of(options).samples)});
  if (!output) return output.error();
  const nlohmann::json times = nlohmann::json::parse(*output, nullptr, /*allow_exceptions=*/false);
  for (const settings::Setting& cost : settings::cost_settings()) {
    const std::string key(cost.name);
    if (key == kUnit) continue;
    if (key == kCheck) {
      c.costs[key] = {kCheckCycles, "assumed: nine instructions, two of which load, three at once"};
      continue;
    }
    if (!times.is_object() || !times.contains(key))
      return error("braid-times does not print '{}'; build braid-times and braid from the same source", key);
    const nlohmann::json& time = times[key];
    c.costs[key] = {time.at("ns").get<double>() * c.clock_mhz / 1e3, time.at("how").get<std::string>()};
  }
  return {};
}

// --- The price of a unit of the compiler's charges

// A model in which only computing takes time. A unit takes one microsecond, so the time
// that a program prints is the number of its units. Faults and calls take 100 cycles,
// which is negligible, so that compute nodes need not synchronise at every step.
std::string counting_model() {
  Calibration c;
  c.processor = c.day = "none";
  c.clock_mhz = 1;
  for (const settings::Setting& cost : settings::cost_settings())
    c.costs[std::string(cost.name)] = {0, "counting"};
  c.costs[kUnit].cycles = 1;
  c.costs["fault"].cycles = c.costs["call"].cycles = 100;
  return render_model(c, {});
}

double geometric_mean(const std::vector<double>& values) {
  double logarithms = 0;
  for (const double value : values) logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

Result<void> price_units(const CalibrationOptions& options, const Progress& tell, Calibration& c) {
  const ScratchFile counting(counting_model());
  if (counting.problem() != 0)
    return error("{} cannot be written: {}", counting.path(), cause_and_cure(counting.problem()));
  std::vector<double> prices;
  for (const auto& [program, other] : calibration_programs()) {
    tell(fmt::format("computing: {} alone", program.text()));
    const Result<double> counted = simulated_seconds(options.folder, counting.path(), {}, program);
    if (!counted) return counted.error();
    auto live = live_seconds(options.folder, {}, effort_of(options).runs_alone, program);
    if (!live) return live.error();
    c.programs.push_back({program.name, program.text(), *counted * 1e6, std::move(live).value()});
    prices.push_back(c.programs.back().cycles_per_unit(c.clock_mhz));
  }
  c.costs[kUnit] = {geometric_mean(prices),
                    "of a program that is not among 'units': the geometric mean of those that are"};
  return {};
}

// Predicts one run and, if the host has a processor for each of its threads, measures it.
Result<Prediction> predict_run(const CalibrationOptions& options, unsigned cores, const std::string& model,
                               const Program& program, MachineShape machine) {
  Prediction p{.command = program.text(),
               .unit = Prediction::Unit::kOwn,
               .clusters = machine.clusters,
               .compute = machine.compute,
               .predicted_seconds = 0,
               .measured_seconds = {}};
  const Result<double> predicted = simulated_seconds(options.folder, model, machine, program);
  if (!predicted) return predicted.error();
  p.predicted_seconds = *predicted;
  if (p.threads() > cores) return p;
  auto measured = live_seconds(options.folder, machine, effort_of(options).runs, program);
  if (!measured) return measured.error();
  p.measured_seconds = std::move(measured).value();
  return p;
}

}  // namespace

Result<Calibration> calibrate(const CalibrationOptions& options, const Progress& tell) {
  Calibration c;
  describe_machine(c);
  tell("stages");
  if (const Result<void> timed = time_stages(options, c); !timed) return timed.error();
  if (const Result<void> priced = price_units(options, tell, c); !priced) return priced.error();
  return c;
}

std::vector<Prediction> leave_one_out(const Calibration& c) {
  std::vector<Prediction> predictions;
  for (const Calibration::Priced& left_out : c.programs) {
    std::vector<double> others;
    for (const Calibration::Priced& other : c.programs)
      if (&other != &left_out) others.push_back(other.cycles_per_unit(c.clock_mhz));
    if (others.empty()) continue;
    predictions.push_back({.command = left_out.command,
                           .unit = Prediction::Unit::kOthers,
                           .predicted_seconds = left_out.units * geometric_mean(others) / (c.clock_mhz * 1e6),
                           .measured_seconds = left_out.seconds});
  }
  return predictions;
}

Result<std::vector<Prediction>> predict(const CalibrationOptions& options, const Calibration& c,
                                        const std::string& model, const Progress& tell) {
  struct Run {
    Program program;
    MachineShape machine;
  };
  std::vector<Run> runs;
  for (const auto& [priced, other] : calibration_programs()) runs.push_back({other, {}});
  for (const MachineShape machine : {MachineShape{1, 2}, MachineShape{2, 1}})
    for (const auto& [priced, other] : calibration_programs()) runs.push_back({priced, machine});

  std::vector<Prediction> predictions;
  for (const auto& [program, machine] : runs) {
    tell(fmt::format("prediction: {}, {} cluster(s) of {}", program.text(), machine.clusters,
                     machine.compute));
    Result<Prediction> p = predict_run(options, c.cores, model, program, machine);
    if (!p) return p.error();
    predictions.push_back(std::move(p).value());
  }
  return predictions;
}

}  // namespace braid::cli
