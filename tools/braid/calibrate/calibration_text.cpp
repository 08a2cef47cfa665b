// The output of `braid calibrate`: a model as YAML, and a text for people.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "settings/cost_model.h"
#include "settings/reader.h"
#include "settings/run.h"
#include "tools/braid/calibrate/calibrate.h"

namespace braid::cli {
namespace {

// Other processes used more than a quarter of the processors before the calibration began.
bool is_busy(const Calibration& c) {
  return c.load > 0.25 * c.cores;
}

std::string percent(double part) {
  return fmt::format("{:+.0f} %", 100 * part);
}

std::string table(const std::vector<Prediction>& predictions, const char* margin) {
  std::size_t width = 36;
  for (const Prediction& p : predictions) width = std::max(width, p.command.size());
  std::string text = fmt::format("{}{:<{}} {:>8} {:>6} {:>12} {:>18} {:>18}\n", margin, "program", width,
                                 "unit", "nodes", "predicted", "median (error)", "least (error)");
  for (const Prediction& p : predictions) {
    text += fmt::format("{}{:<{}} {:>8} {:>6} {:>10.3f} s ", margin, p.command, width,
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

// The comment at the beginning of a model's file.
std::string header(const Calibration& c, const std::vector<Prediction>& predictions) {
  std::string text = fmt::format(
      "# Measured by 'braid calibrate' on {}, {}.\n"
      "# The protocol has the defaults of 'braid run'. Clock: {}.\n",
      c.processor, c.day, c.clock_source);
  if (is_busy(c))
    text +=
        fmt::format("# Other processes used the machine: load {:.1f} on {} processors.\n", c.load, c.cores);
  if (predictions.empty()) return text;
  return text +
         fmt::format(
             "#\n"
             "# Predictions of live runs that the model was not fitted to: times that the programs print, on clusters x compute\n"
             "# nodes; {} processors. The price of a program's computing is its own unit from another run, or the mean of the other\n"
             "# programs' units. Not compared: runs with more threads than processors.\n"
             "{}",
             c.cores, table(predictions, "#   "));
}

// The defaults of 'braid run' that a model has too.
std::string protocol() {
  settings::TransportConfig transport = settings::RunConfig{}.transport;
  transport.mtu_bytes = settings::RunConfig{}.mtu_bytes();
  std::string text = "protocol:\n";
  for (const char* key : {"mtu_bytes", "fragmentation", "congestion", "ack_every", "ack_delay_us",
                          "min_rto_us", "max_rto_us", "train_messages"})
    text += fmt::format("  {}: {}\n", key, settings::text_of(settings::kTransportSchema, &transport, key));
  return text;
}

std::string cost_line(const Calibration& c, const std::string& key, const Calibration::Cost& cost) {
  // A string of JSON is one of YAML too.
  const nlohmann::json source = fmt::format("{}; {}, {}", cost.source, c.processor, c.day);
  return fmt::format("  {}: {{value: {:.4g}, source: {}}}\n", key, cost.cycles,
                     source.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::string render_model(const Calibration& c, const std::vector<Prediction>& predictions) {
  std::string text = header(c, predictions);
  text += fmt::format("name: modern\nclock_mhz: {:.6g}\n", c.clock_mhz) + protocol() + "cycles:\n";
  for (const settings::Setting& cost : settings::cost_settings()) {
    const auto found = c.costs.find(std::string(cost.name));
    if (found != c.costs.end()) text += cost_line(c, found->first, found->second);
  }
  if (!c.programs.empty()) text += "units:\n";
  for (const Calibration::Priced& p : c.programs)
    text +=
        cost_line(c, p.name,
                  {p.cycles_per_unit(c.clock_mhz),
                   fmt::format("least of {} printed times of {} alone, divided by the units that it counts",
                               p.seconds.size(), p.command)});
  return text;
}

std::string render_text(const Calibration& c, const std::vector<Prediction>& predictions) {
  std::string text =
      "Predictions of runs that the model was not fitted to, on clusters x compute nodes. Times are those that "
      "the programs\nprint of their parallel part, in the simulation and live:\n" +
      table(predictions, "  ");
  const std::string own = range_of_errors(predictions, Prediction::Unit::kOwn);
  if (!own.empty())
    text +=
        fmt::format("Errors for programs with a unit of their own: {}. The unit is from another run.\n", own);
  const std::string others = range_of_errors(predictions, Prediction::Unit::kOthers);
  if (!others.empty())
    text += fmt::format(
        "Errors for programs without one: {}. Each was predicted with the mean of the other programs' units.\n",
        others);
  unsigned threads = 0;
  for (const Prediction& p : predictions)
    if (!p.compared()) threads = std::max(threads, p.threads());
  if (threads > 0)
    text += fmt::format(
        "Not compared: those runs have up to {} threads and this machine has {} processor(s). The model predicts a machine with\n"
        "a processor for each compute node and proxy; live, the threads would share processors. Measure the error on such a\n"
        "machine.\n",
        threads, c.cores);
  if (is_busy(c))
    text += fmt::format(
        "Other processes use this machine (load {:.1f} on {} processor(s)) and delayed the longer measurements. The "
        "least times are\nmore reliable than the medians. For better figures calibrate on a quiet machine, or with "
        "'chrt -f 10 braid calibrate'\nas root.\n",
        c.load, c.cores);
  return text;
}

}  // namespace braid::cli
