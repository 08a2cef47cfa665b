#include "tools/braid/study/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "settings/views/yaml.h"
#include "tools/braid/study/figures.h"

namespace braid::cli {
namespace {

using settings::Setting;

constexpr std::array kStageCosts = {"window_send", "ack_send",     "udp_send",       "checksum_byte",
                                    "ip_send",     "ni_send",      "ni_byte",        "ni_receive",
                                    "ip_receive",  "udp_receive",  "window_receive", "ack_receive",
                                    "deliver",     "deliver_byte", "timer"};
constexpr char kStages[] = "stages";

bool is_cost(const std::string& name) {
  const auto all = settings::cost_settings();
  return std::any_of(all.begin(), all.end(), [&](const Setting& s) { return s.name == name; });
}

using N = FitNumber;
constexpr Setting kNumber[] = {
    settings::declare<&N::number>(
        {.name = "number",
         .help = "what is fitted: stages (a factor of all costs of a proxy), or a cost",
         .allowed = "stages, or the name of a cost in a model's 'cycles'",
         .fits = [](const std::string& t) { return t == kStages || is_cost(t); },
         .required = true}),
    settings::declare<&N::target>({.name = "target",
                                   .help = "the figure that tells it, a median over the study's points",
                                   .allowed = kFigureNames,
                                   .fits = [](const std::string& t) { return is_figure(t); },
                                   .required = true}),
    settings::declare<&N::value>({.name = "value",
                                  .help = "the target's",
                                  .least_number = 1e-9,
                                  .max_number = 1e12,
                                  .required = true}),
    settings::declare<&N::least>({.name = "least",
                                  .help = "the smallest allowed number",
                                  .least_number = 1e-9,
                                  .max_number = 1e9,
                                  .required = true}),
    settings::declare<&N::most>({.name = "most",
                                 .help = "the largest allowed number",
                                 .least_number = 1e-9,
                                 .max_number = 1e9,
                                 .required = true}),
    settings::declare<&N::start>(
        {.name = "start", .help = "of the search; 0: the model's own", .max_number = 1e9}),
    settings::declare<&N::source>(
        {.name = "source", .help = "where the target's value is from", .required = true})};

std::optional<settings::Conflict> has_bounds(const N& n) {
  if (n.least > n.most)
    return settings::Conflict{{"least", "most"},
                              fmt::format("{} is more than most ({}); exchange them", n.least, n.most)};
  if (n.number == "unit" && n.least < 1)
    return settings::Conflict{
        {"least", "number"},
        fmt::format("{}: a unit is at least one cycle (docs/decisions/0009); set least to 1 or more",
                    n.least)};
  return std::nullopt;
}
constexpr settings::Relation kNumberRelations[] = {
    settings::relation<N, has_bounds>("least is at most most, and of a unit at least 1")};
constinit const settings::Schema kNumberSchema = {.settings = kNumber, .relations = kNumberRelations};

using F = FitConfig;
constexpr Setting kSettings[] = {
    settings::declare<&F::model>(
        {.name = "model", .help = "the model whose other costs are kept", .required = true}),
    settings::declare<&F::name>({.name = "name", .help = "of the model that is made", .required = true}),
    settings::declare<&F::study>(
        {.name = "study", .help = "the file of the study that is fitted to", .required = true}),
    settings::declare<&F::predict>({.name = "predict", .help = "the file of the study that is predicted"}),
    settings::declare<&F::tolerance>({.name = "tolerance",
                                      .help = "how far figures may be from their targets, as a part of them",
                                      .least_number = 1e-6,
                                      .max_number = 1}),
    settings::declare<&F::rounds>(
        {.name = "rounds", .help = "the most that the search looks at", .least = 1, .most = 100})};
constexpr settings::List kLists[] = {settings::list<&F::fit>(
    "fit", "what is fitted to what",
    "{number: unit, target: utilisation, value: 0.352, least: 1, most: 50, source: \"…\"}", kNumberSchema)};

std::optional<settings::Conflict> fits_little(const F& f) {
  if (f.name.empty() || f.name.find('/') != std::string::npos || f.name.starts_with('.'))
    return settings::Conflict{{"name"}, "must be the name of a model, as its file has it without '.yaml'"};
  if (f.fit.empty()) return settings::Conflict{{"fit"}, "is missing; add what is fitted to what"};
  if (f.fit.size() > F::kMostNumbers)
    return settings::Conflict{
        {"fit"},
        fmt::format("has {} numbers; at most {} are fitted, or the fit could meet anything", f.fit.size(),
                    F::kMostNumbers)};
  std::set<std::string> numbers, targets;
  for (const N& n : f.fit)
    if (!numbers.insert(n.number).second || !targets.insert(n.target).second)
      return settings::Conflict{
          {"fit"},
          fmt::format("has '{}' or '{}' twice; each number has a target of its own", n.number, n.target)};
  return std::nullopt;
}
constexpr settings::Relation kRelations[] = {
    settings::relation<F, fits_little>("one to three numbers are fitted, each to a target of its own")};

// To four digits: no measurement has more.
double rounded(double number) {
  return std::strtod(fmt::format("{:.4g}", number).c_str(), nullptr);
}

// The lines of a text.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "  KEY: {value: 3, source: "…"}" with another value, and a word on its source.
bool replace_cost(std::string& line, const std::string& key, double value, const std::string& why) {
  const std::string begin = fmt::format("  {}: {{value: ", key);
  if (!line.starts_with(begin)) return false;
  const std::size_t comma = line.find(',', begin.size()), quote = line.rfind('"');
  if (comma == std::string::npos || quote == std::string::npos || quote < comma) return false;
  line = fmt::format("{}{}{}; {}{}", begin, settings::text_of_number(value),
                     line.substr(comma, quote - comma), why, line.substr(quote));
  return true;
}

// Sets a key of the model's section "protocol".
bool replace_transport(std::vector<std::string>& lines, const std::string& key, const std::string& value) {
  auto line = std::find(lines.begin(), lines.end(), "protocol:");
  if (line == lines.end()) return false;
  const std::string begin = fmt::format("  {}:", key), now = fmt::format("{} {}", begin, value);
  for (++line; line != lines.end() && line->starts_with("  "); ++line) {
    if (!line->starts_with(begin)) continue;
    *line = now;
    return true;
  }
  lines.insert(line, now);
  return true;
}

}  // namespace

constinit const settings::Schema kFitSchema = {
    .settings = kSettings, .lists = kLists, .relations = kRelations};

Result<FitConfig> load_fit(const std::string& path) {
  settings::Collector<FitConfig> collector;
  if (const Result<void> done = settings::load_yaml_file(collector, path); !done) return done.error();
  return collector.finish();
}

FitSearch::FitSearch(const FitConfig& config, std::vector<double> start)
    : config_(config), numbers_(std::move(start)) {
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    numbers_[i] = std::clamp(numbers_[i], config.fit[i].least, config.fit[i].most);
}

double FitSearch::error_of(const Round& round) const {
  double worst = 0;
  for (std::size_t i = 0; i < round.figures.size(); ++i)
    worst = std::max(worst, std::abs(round.figures[i] / config_.fit[i].value - 1));
  return worst;
}

void FitSearch::look_at(std::vector<double> figures) {
  rounds_.push_back({numbers_, std::move(figures)});
  if (error_of(rounds_.back()) < error_of(rounds_[best_])) best_ = rounds_.size() - 1;
  is_over_ = has_met() || rounds_.size() >= config_.rounds;
  if (is_over_) {
    numbers_ = rounds_[best_].numbers;
    return;
  }
  std::vector<double> after;
  for (std::size_t i = 0; i < numbers_.size(); ++i) after.push_back(next(i));
  // A search that stands still will not find anything else.
  if (after == numbers_) {
    is_over_ = true;
    numbers_ = rounds_[best_].numbers;
    return;
  }
  numbers_ = after;
}

double FitSearch::next(std::size_t i) const {
  const FitNumber& n = config_.fit[i];
  const Round& last = rounds_.back();
  // Figures of 0 have no logarithm.
  const double figure = std::log(std::max(1e-12, last.figures[i])), number = std::log(last.numbers[i]);
  const double wanted = std::log(n.value);
  // Costs of proxies make messages longer; all other costs make nodes, and so proxies, less busy.
  double slope = n.number == kStages ? 1 : -1;
  if (rounds_.size() > 1) {
    const Round& before = rounds_[rounds_.size() - 2];
    const double moved = number - std::log(before.numbers[i]);
    const double told = figure - std::log(std::max(1e-12, before.figures[i]));
    // A slope of the wrong sign, or one that is very flat, is the other numbers' doing.
    if (std::abs(moved) > 1e-6 && told / moved * slope > 0.1) slope = std::clamp(told / moved, -3.0, 3.0);
  }
  const double step = std::clamp((wanted - figure) / slope, -1.0, 1.0);
  return std::clamp(std::exp(number + step), n.least, n.most);
}

std::vector<std::string> costs_of(const std::string& number) {
  if (number == kStages) return {kStageCosts.begin(), kStageCosts.end()};
  return {number};
}

double cost_with(const FitConfig& config, const std::vector<double>& numbers, const std::string& name,
                 const settings::CostModel& model) {
  const auto all = settings::cost_settings();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Setting& s) { return s.name == name; });
  const double own = settings::number_of_text(found->get(static_cast<const settings::Costs*>(&model)));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (config.fit[i].number == name) return rounded(numbers[i]);
    if (config.fit[i].number != kStages) continue;
    if (std::find(kStageCosts.begin(), kStageCosts.end(), name) != kStageCosts.end())
      return rounded(own * numbers[i]);
  }
  return own;
}

Result<std::string> frozen_model(const FitConfig& config, const std::vector<double>& numbers,
                                 const std::map<std::string, std::string>& transport, const std::string& text,
                                 const settings::CostModel& model, const std::string& head) {
  std::vector<std::string> lines = lines_of(text);
  std::string out = head;
  for (const FitNumber& n : config.fit) {
    for (const std::string& cost : costs_of(n.number)) {
      const double value = cost_with(config, numbers, cost, model);
      const std::string why = n.number == kStages ? "fitted with all of them" : "fitted";
      const bool replaced = std::any_of(lines.begin(), lines.end(), [&](std::string& line) {
        return replace_cost(line, cost, value, why);
      });
      if (!replaced)
        return error("model {}: has no line '  {}: {{value: …, source: \"…\"}}' of its own; write it so",
                     config.model, cost);
    }
  }
  for (const auto& [key, value] : transport) {
    if (!replace_transport(lines, key, value))
      return error("model {}: has no section 'protocol:' for {}; write one", config.model, key);
  }
  for (std::string& line : lines) {
    if (line.starts_with("name:")) line = "name: " + config.name;
    if (line.starts_with("#")) continue;  // of the model that it is made from
    out += line + "\n";
  }
  return out;
}

}  // namespace braid::cli
