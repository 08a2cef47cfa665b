#include "tools/braid/study/figures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/json.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

double at(const Json& report, const char* pointer) {
  return number_at(report, pointer).value_or(0);
}

double waiting(const Json& report) {
  return at(report, "/messages/mean_wait_to_send") + at(report, "/messages/mean_wait_for_link") +
         at(report, "/messages/mean_wait_to_receive");
}

struct Figure {
  const char* name;
  double (*of)(const Json& report);
};
constexpr std::array<Figure, 9> kFigures = {{
    {"message_cycles", [](const Json& r) { return at(r, "/messages/mean_cycles"); }},
    {"idle_cycles", [](const Json& r) { return at(r, "/messages/mean_cycles") - waiting(r); }},
    {"waiting_cycles", waiting},
    {"utilisation", [](const Json& r) { return at(r, "/mean_utilisation"); }},
    {"queue", [](const Json& r) { return at(r, "/mean_queue"); }},
    {"queue_of_messages", [](const Json& r) { return at(r, "/mean_queue_of_messages"); }},
    {"messages", [](const Json& r) { return at(r, "/messages/count"); }},
    {"rate", [](const Json& r) { return at(r, "/messages/per_million_cycles"); }},
    {"parallel_cycles", [](const Json& r) { return at(r, "/parallel_cycles"); }},
}};

}  // namespace

std::optional<double> number_at(const Json& report, const char* pointer) {
  const Json::json_pointer where(pointer);
  if (!report.contains(where) || !report[where].is_number()) return std::nullopt;
  return report[where].get<double>();
}

bool is_figure(const std::string& name) {
  return std::any_of(kFigures.begin(), kFigures.end(), [&](const Figure& f) { return name == f.name; });
}

double figure_of(const Json& report, const std::string& name) {
  const auto found =
      std::find_if(kFigures.begin(), kFigures.end(), [&](const Figure& f) { return name == f.name; });
  CHECK(found != kFigures.end());
  return found->of(report);
}

Spread spread_of(std::vector<double> samples) {
  CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  Spread s;
  s.median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
  // The chance that fewer than k of n samples are below the median, on both sides.
  std::size_t k = 0;
  double term = std::pow(0.5, static_cast<double>(n)), chance = 2 * term;
  while (chance <= 0.05 && k + 1 < (n + 1) / 2) {
    ++k;
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    chance += 2 * term;
  }
  // Outside [k-th smallest, k-th largest] (from 1) the chance is that of fewer than k below.
  const std::size_t edge = k == 0 ? 0 : k - 1;
  s.low = samples[edge];
  s.high = samples[n - 1 - edge];
  return s;
}

}  // namespace braid::cli
