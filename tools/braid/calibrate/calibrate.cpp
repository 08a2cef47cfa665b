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
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "base/clock.h"
#include "settings/cost_model.h"
#include "settings/run.h"
#include "settings/words.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/process/process.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {

namespace {

constexpr const char* kUnit = "unit";  // the one cost that takes a program to measure

struct Program {
  std::string name;
  std::vector<std::string> arguments;

  std::string text() const { return fmt::format("{} {}", name, fmt::join(arguments, " ")); }
};

// Each takes tens of milliseconds, which programs print to a thousandth of a second.
struct Pair {
  Program priced;
  Program other;  // of another size
};
const std::vector<Pair>& programs() {
  static const std::vector<Pair> all = {{{"jacobi", {"--size", "512", "--iterations", "100"}},
                                         {"jacobi", {"--size", "1024", "--iterations", "40"}}},
                                        {{"matmul", {"--size", "384"}}, {"matmul", {"--size", "512"}}},
                                        {{"gauss", {"--size", "512"}}, {"gauss", {"--size", "768"}}},
                                        {{"water", {"--molecules", "343", "--iterations", "4"}},
                                         {"water", {"--molecules", "512", "--iterations", "4"}}},
                                        {{"tsp", {"--cities", "14"}}, {"tsp", {"--cities", "16"}}}};
  return all;
}

struct Effort {
  unsigned samples, runs_alone, runs;
};
Effort effort_of(const CalibrationOptions& options) {
  return options.quick ? Effort{10, 3, 1} : Effort{200, 25, 15};
}

// A file for others to read while this object lives.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text) {
    file_ = Descriptor(::mkstemp(path_.data()));
    if (!file_) return;
    written_ = ::write(file_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  ~ScratchFile() {
    if (file_) ::unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  bool written() const { return written_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/braid-calibrate-XXXXXX";
  Descriptor file_;
  bool written_ = false;
};

// Runs a program of the folder to its end and returns what it wrote on standard output; an error if it
// failed, with what it wrote last.
Result<std::string> output_of(const std::string& folder, const std::string& name,
                              std::vector<std::string> arguments) {
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
                 err.empty() ? "it says nothing" : err.substr(err.size() < 2000 ? 0 : err.size() - 2000));
  return run->out;
}

// The time that a program of apps/ prints of its parallel part; in a simulation, that of the model.
Result<double> seconds_of(const std::string& folder, const std::string& name,
                          const std::vector<std::string>& arguments) {
  const Result<std::string> output = output_of(folder, name, arguments);
  if (!output) return output.error();
  static const std::regex pattern(R"(: ([0-9]+\.[0-9]+) s, verified)");
  std::smatch found;
  if (!std::regex_search(*output, found, pattern))
    return error("{} {} printed no time and that it is verified, but: {}", name, fmt::join(arguments, " "),
                 *output);
  return std::strtod(found[1].str().c_str(), nullptr);
}

std::vector<std::string> command_of(const char* command, std::vector<std::string> options,
                                    const Program& program) {
  options.insert(options.begin(), command);
  options.push_back(program.name);
  options.insert(options.end(), program.arguments.begin(), program.arguments.end());
  return options;
}

// A machine to run a program on; a cluster has one proxy.
struct Machine {
  unsigned clusters = 1;
  unsigned compute = 1;
  std::vector<std::string> options() const {
    return {"--clusters", std::to_string(clusters), "--compute", std::to_string(compute), "--proxies", "1"};
  }
};

Result<double> simulated_seconds(const std::string& folder, const std::string& model, Machine machine,
                                 const Program& program) {
  std::vector<std::string> options = machine.options();
  options.insert(options.begin(), {"--quiet", "--model", model});
  return seconds_of(folder, "braid", command_of("sim", std::move(options), program));
}

// Times of several runs, ascending. A single compute node needs no daemon: the program runs alone.
Result<std::vector<double>> live_seconds(const std::string& folder, Machine machine, unsigned runs,
                                         const Program& program) {
  std::vector<std::string> options = machine.options();
  options.insert(options.begin(), "--quiet");
  const bool alone = machine.clusters == 1 && machine.compute == 1;
  std::vector<double> times;
  for (unsigned run = 0; run < runs; ++run) {
    const Result<double> seconds = alone ? seconds_of(folder, program.name, program.arguments)
                                         : seconds_of(folder, "braid", command_of("run", options, program));
    if (!seconds) return seconds.error();
    // Programs print milliseconds.
    times.push_back(std::max(*seconds, 5e-4));
  }
  std::sort(times.begin(), times.end());
  return times;
}

// --- This machine

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
  c.clock_source =
      "'cpu MHz' of /proc/cpuinfo: what the times below, which were measured in ns, are expressed in";
  if (!(c.clock_mhz > 0)) {
    c.clock_mhz = 1000;
    c.clock_source = "/proc/cpuinfo tells none: a cycle stands for a nanosecond";
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
    if (!times.is_object() || !times.contains(key))
      return error("braid-times does not tell '{}': is it of the same build as braid?", key);
    const nlohmann::json& time = times[key];
    c.costs[key] = {time.at("ns").get<double>() * c.clock_mhz / 1e3, time.at("how").get<std::string>()};
  }
  return {};
}

// --- What the compiler's charges are worth

// A model in which nothing but computing takes time, a unit a microsecond: what a program prints as its time
// is what it has counted. Faults and calls take as much as is lost in that, so that compute nodes need not
// stop for each other all the time.
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
  if (!counting.written()) return error("{} cannot be written: {}", counting.path(), std::strerror(errno));
  std::vector<double> prices;
  for (const auto& [program, other] : programs()) {
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

// Before it began, somebody else used more than a quarter of it.
bool is_busy(const Calibration& c) {
  return c.load > 0.25 * c.cores;
}

std::string percent(double part) {
  return fmt::format("{:+.0f} %", 100 * part);
}

std::string table(const std::vector<Prediction>& predictions, const char* margin) {
  std::string text = fmt::format("{}{:<36} {:>8} {:>6} {:>12} {:>18} {:>18}\n", margin, "program", "unit",
                                 "nodes", "predicted", "median (error)", "least (error)");
  for (const Prediction& p : predictions) {
    text += fmt::format("{}{:<36} {:>8} {:>6} {:>10.3f} s ", margin, p.command,
                        p.unit == Prediction::Unit::kOwn ? "its own" : "others'",
                        fmt::format("{} x {}", p.clusters, p.compute), p.predicted_seconds);
    text += p.compared()
                ? fmt::format("{:>18} {:>18}\n", fmt::format("{:.3f} s ({})", p.median(), percent(p.error())),
                              fmt::format("{:.3f} s ({})", p.least(), percent(p.error_of_least())))
                : fmt::format("{:>18}\n", "not compared");
  }
  return text;
}

// The errors of the medians, from the most negative to the most positive; empty: nothing was compared.
std::string range_of_errors(const std::vector<Prediction>& predictions, Prediction::Unit unit) {
  std::vector<double> errors;
  for (const Prediction& p : predictions)
    if (p.unit == unit && p.compared()) errors.push_back(p.error());
  if (errors.empty()) return "";
  const auto [least, most] = std::minmax_element(errors.begin(), errors.end());
  return fmt::format("{} to {}", percent(*least), percent(*most));
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
  std::vector<Prediction> predictions;
  const auto add = [&](const Program& program, Machine machine) -> Result<void> {
    tell(fmt::format("prediction: {}, {} cluster(s) of {}", program.text(), machine.clusters,
                     machine.compute));
    Prediction p{.command = program.text(),
                 .unit = Prediction::Unit::kOwn,
                 .clusters = machine.clusters,
                 .compute = machine.compute,
                 .predicted_seconds = 0,
                 .measured_seconds = {}};
    const Result<double> predicted = simulated_seconds(options.folder, model, machine, program);
    if (!predicted) return predicted.error();
    p.predicted_seconds = *predicted;
    if (p.threads() <= c.cores) {
      auto measured = live_seconds(options.folder, machine, effort_of(options).runs, program);
      if (!measured) return measured.error();
      p.measured_seconds = std::move(measured).value();
    }
    predictions.push_back(std::move(p));
    return {};
  };
  for (const auto& [priced, other] : programs())
    if (const Result<void> added = add(other, {}); !added) return added.error();
  for (const Machine machine : {Machine{1, 2}, Machine{2, 1}})
    for (const auto& [priced, other] : programs())
      if (const Result<void> added = add(priced, machine); !added) return added.error();
  return predictions;
}

std::string render_model(const Calibration& c, const std::vector<Prediction>& predictions) {
  const settings::RunConfig run;
  const stack::SubConnectionConfig sub;
  std::string text = fmt::format(
      "# Measured by 'braid calibrate' on {}, {}.\n"
      "# The protocol is what 'braid run' has by default. Clock: {}.\n",
      c.processor, c.day, c.clock_source);
  if (is_busy(c))
    text += fmt::format("# Others used the machine: load {:.1f} on {} processors.\n", c.load, c.cores);
  if (!predictions.empty())
    text += fmt::format(
        "#\n"
        "# How well it foretold live runs there that it was not fitted to: programs' own printed times, on clusters\n"
        "# x compute nodes; {} processors. A program's computing is priced by its own unit from another run, or by the mean of the\n"
        "# other programs'. Not compared: more threads than processors.\n"
        "{}",
        c.cores, table(predictions, "#   "));
  text += fmt::format(
      "name: modern\n"
      "clock_mhz: {:.6g}\n"
      "protocol:\n"
      "  mtu_bytes: {}\n"
      "  fragmentation: {}\n"
      "  congestion: {}\n"
      "  ack_every: {}\n"
      "  ack_delay_us: {}\n"
      "  min_rto_us: {}\n"
      "  max_rto_us: {}\n"
      "cycles:\n",
      c.clock_mhz, run.mtu_bytes(), settings::word_of(run.transport.fragmentation),
      settings::word_of(run.transport.congestion), sub.ack_every, sub.ack_delay.ns() / 1000,
      run.transport.min_rto_us, run.transport.max_rto_us);
  const auto line = [&](const std::string& key, const Calibration::Cost& cost) {
    // What JSON quotes, YAML reads.
    const nlohmann::json source = fmt::format("{}; {}, {}", cost.source, c.processor, c.day);
    return fmt::format("  {}: {{value: {:.4g}, source: {}}}\n", key, cost.cycles,
                       source.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  };
  for (const settings::Setting& cost : settings::cost_settings()) {
    const auto found = c.costs.find(std::string(cost.name));
    if (found == c.costs.end()) continue;
    text += line(found->first, found->second);
  }
  if (!c.programs.empty()) text += "units:\n";
  for (const Calibration::Priced& p : c.programs)
    text += line(p.name, {p.cycles_per_unit(c.clock_mhz),
                          fmt::format("least of {} printed times of {} alone by what it counts",
                                      p.seconds.size(), p.command)});
  return text;
}

std::string render_text(const Calibration& c, const std::vector<Prediction>& predictions) {
  std::string text =
      "Runs that the model was not fitted to, on clusters x compute nodes; times are what the programs print "
      "of their\nparallel part, in the simulation and live:\n" +
      table(predictions, "  ");
  const std::string own = range_of_errors(predictions, Prediction::Unit::kOwn);
  if (!own.empty())
    text += fmt::format("A program that the model has a unit of: {}. Its unit is from another run.\n", own);
  const std::string others = range_of_errors(predictions, Prediction::Unit::kOthers);
  if (!others.empty())
    text += fmt::format("A program that it has none of: {}. Each was foretold by the other programs' mean.\n",
                        others);
  unsigned threads = 0;
  for (const Prediction& p : predictions)
    if (!p.compared()) threads = std::max(threads, p.threads());
  if (threads > 0)
    text += fmt::format(
        "Not compared: those runs have up to {} threads and this machine has {} processor(s). Live, threads would take turns\n"
        "on them, of which the model knows nothing: it foretells a machine with a processor for each compute node and proxy,\n"
        "and how well can only be found out on one.\n",
        threads, c.cores);
  if (is_busy(c))
    text += fmt::format(
        "Others use this machine (load {:.1f} on {} processor(s)): what ran longer than a slice of the "
        "scheduler's was held up by\nthem. The least times say more than the medians; a quiet machine, or "
        "'chrt -f 10 braid calibrate' as root, says more than both.\n",
        c.load, c.cores);
  return text;
}

}  // namespace braid::cli
