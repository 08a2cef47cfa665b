#include "tools/braid/study/live_points.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "settings/views/json.h"
#include "tools/braid/counted.h"
#include "tools/braid/find_program.h"
#include "tools/braid/study/figures.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// What the prediction costs, or how it is made: no part of the machine.
constexpr std::array kOfThePrediction = {"simulation.model", "simulation.message_bytes", "simulation.jitter",
                                         "simulation.strict", "simulation.watchdog_s"};

bool is_of_the_prediction(const std::string& key) {
  return key.starts_with("cycles.") ||
         std::find(kOfThePrediction.begin(), kOfThePrediction.end(), key) != kOfThePrediction.end();
}

// What is wrong with so many threads; empty: processors suffice.
std::string refusal(const settings::RunConfig& c, unsigned processors) {
  if (c.threads() <= processors) return "";
  return fmt::format("{} x ({} + {}) are {} threads, and there {} {}", counted(c.clusters, "cluster"),
                     counted(c.compute, "compute node"), counted(c.proxies, "proxy", "proxies"), c.threads(),
                     processors == 1 ? "is" : "are", counted(processors, "processor"));
}

// --- What came of a run

constexpr const char* kParallel = "/parallel_ns";
constexpr const char* kMessages = "/totals/messages_sent";
constexpr const char* kBytes = "/totals/message_bytes_sent";

// Integers as such; empty: unknown.
std::string cell(std::optional<double> number) {
  if (!number) return "";
  return std::nearbyint(*number) == *number ? fmt::format("{:.0f}", *number) : fmt::format("{}", *number);
}

// null: the program does not say.
Json verified_of(const Job& job) {
  if (!job.result) return false;
  const OrderedJson& report = job.result->report;
  return report.contains("verified") && report["verified"].is_boolean() ? Json(report["verified"]) : Json();
}

const char* word_of(const Json& verified) {
  return verified.is_null() ? "" : verified.get<bool>() ? "yes" : "no";
}

// In the order of repetitions; all have ended.
std::vector<const Job*> runs_of(const LiveResults& r, const LivePoint& point) {
  std::vector<const Job*> all;
  for (unsigned k = 0; point.first && k < r.study.repetitions; ++k) {
    const Job& job = r.jobs.of_point(*point.first + k * r.plan.different);
    if (job.is_over()) all.push_back(&job);
  }
  return all;
}

std::vector<double> figures_of(const std::vector<const Job*>& runs, const char* pointer) {
  std::vector<double> all;
  for (const Job* const job : runs) {
    if (!job->result) continue;
    if (const std::optional<double> number = number_at(job->result->report, pointer)) all.push_back(*number);
  }
  return all;
}

std::optional<double> median_of(const std::vector<double>& samples) {
  return samples.empty() ? std::nullopt : std::optional(spread_of(samples).median);
}

// Of all repetitions: no if one is wrong, yes if all are right.
Json verified_of(const std::vector<const Job*>& runs) {
  Json all = true;
  for (const Job* const job : runs) {
    const Json one = verified_of(*job);
    if (one == false) return false;
    if (one.is_null()) all = one;
  }
  return all;
}

std::optional<double> predicted_ns(const PointResult* simulated) {
  if (simulated == nullptr) return std::nullopt;
  const std::optional<double> cycles = number_at(simulated->report, "/parallel_cycles");
  const std::optional<double> rate = number_at(simulated->report, "/cycles_per_second");
  if (!cycles || !rate || *rate <= 0) return std::nullopt;
  return std::round(*cycles / *rate * 1e9);
}

// As `braid run` takes it; it exists.
std::string name_of_live_build(const StudyPoint& point, const std::string& folder) {
  if (!point.live.empty()) return point.live;
  if (point.application.find('/') == std::string::npos) return point.application;
  return *find_live_build(point.application, "", folder);
}

OrderedJson entry(const StudyPoint& point, const Study& study, const std::string& why) {
  return {{"what", describe(point, study.varied)}, {"why", why}};
}

}  // namespace

std::string only_simulated(const StudyPoint& point) {
  const settings::RunConfig& config = point.settings.unchecked();
  const settings::RunConfig defaults;
  for (const auto& [key, place] : point.settings.given()) {
    if (key.find('[') != std::string::npos) continue;  // its list is given, too
    if (settings::shapes(key, false) || is_of_the_prediction(key)) continue;
    const Json value = settings::json_of(settings::kRunSchema, &config, key);
    if (value == settings::json_of(settings::kRunSchema, &defaults, key)) continue;
    return value.is_array()
               ? key
               : fmt::format("{} {}", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (config.engine.page_bytes < settings::kMinPageBytes)
    return fmt::format("engine.page_bytes {}", config.engine.page_bytes);
  return config.protocol == dsm::Protocol::kMgs ? "protocol mgs" : "";
}

Result<void> check_live(const StudyPoint& point) {
  const Result<settings::RunConfig> whole = point.settings.finish();
  return whole ? Result<void>() : whole.error();
}

Result<LivePlan> plan_live_runs(const Study& study, StudyPrograms& programs, const LiveHost& host,
                                const std::string& folder, bool oversubscribe) {
  LivePlan plan;
  plan.host = host;
  plan.oversubscribe = oversubscribe;
  std::map<std::string, std::size_t> by_name;
  std::vector<const StudyPoint*> first;  // of each name
  std::vector<std::string> builds;       // of these
  std::vector<Json> origins;
  for (const StudyPoint& point : study.points) {
    LivePoint live;
    live.only_simulated = only_simulated(point);
    live.threads = point.settings.unchecked().threads();
    live.oversubscribed = live.threads > host.processors;
    if (live.only_simulated.empty()) {
      if (const Result<void> good = check_live(point); !good)
        return error("{} (in the live run of the point {})", good.error().text,
                     describe(point, study.varied));
      const Result<Json> origin = programs.live_origin(point, host, folder);
      if (!origin) return origin.error();
      if (!oversubscribe) live.refused = refusal(point.settings.unchecked(), host.processors);
      if (live.refused.empty()) {
        const auto [known, is_new] = by_name.emplace(name_of(*origin), first.size());
        live.first = known->second;
        if (is_new) {
          first.push_back(&point);
          builds.push_back(name_of_live_build(point, folder));
          origins.push_back(*origin);
        }
      }
    }
    plan.points.push_back(std::move(live));
  }
  plan.different = first.size();
  if (first.empty())
    return error("{}: key 'engine': no point can run live:\n{}", study.file, describe_refusals(study, plan));
  plan.runs.file = study.file;
  plan.runs.varied = study.varied;
  for (unsigned repetition = 1; repetition <= study.repetitions; ++repetition) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      StudyPoint& run = plan.runs.points.emplace_back(*first[i]);
      run.application = builds[i];
      run.repetition = repetition;
      plan.origins.push_back(origins[i]);
      plan.origins.back()["repetition"] = repetition;
    }
  }
  return plan;
}

std::string describe_refusals(const Study& study, const LivePlan& plan) {
  std::string text;
  const auto tell = [&](std::string LivePoint::*reason, const std::string& what, const std::string& cure) {
    std::string list;
    std::size_t number = 0;
    for (std::size_t i = 0; i < plan.points.size(); ++i) {
      if ((plan.points[i].*reason).empty()) continue;
      list += fmt::format("  {}: {}\n", describe(study.points[i], study.varied), plan.points[i].*reason);
      ++number;
    }
    if (number > 0)
      text += fmt::format("braid study: {} {}{}:\n{}", counted(number, "point"), what, cure, list);
  };
  tell(&LivePoint::refused, "refused as live runs",
       "; --oversubscribe runs them all the same, and marks them so");
  tell(&LivePoint::only_simulated, "only simulated", ", for no host has this");
  return text;
}

std::string live_csv(const LiveResults& r) {
  std::vector<std::string> cells = point_columns(r.study.varied);
  for (const char* const name : {"repetition", "threads", "processors", "oversubscribed", "parallel_ns",
                                 "messages", "bytes", "verified", "failure", "run"})
    cells.emplace_back(name);
  std::string csv = csv_line(cells);
  for (std::size_t i = 0; i < r.plan.points.size(); ++i) {
    const LivePoint& live = r.plan.points[i];
    for (const Job* const job : runs_of(r, live)) {
      const OrderedJson report = job->result ? job->result->report : OrderedJson();
      cells = point_cells(r.study.varied, r.study.points[i]);
      cells.push_back(std::to_string(job->point->repetition));
      cells.push_back(std::to_string(live.threads));
      cells.push_back(std::to_string(r.plan.host.processors));
      cells.emplace_back(live.oversubscribed ? "yes" : "no");
      for (const char* const pointer : {kParallel, kMessages, kBytes})
        cells.push_back(cell(number_at(report, pointer)));
      cells.emplace_back(word_of(verified_of(*job)));
      cells.push_back(in_csv(job->failure));
      cells.push_back(job->name);
      csv += csv_line(cells);
    }
  }
  return csv;
}

std::string live_medians_csv(const LiveResults& r) {
  std::vector<std::string> cells = point_columns(r.study.varied);
  for (const char* const name :
       {"runs", "threads", "processors", "oversubscribed", "verified", "parallel_ns", "least_parallel_ns",
        "greatest_parallel_ns", "messages", "bytes", "predicted_parallel_ns", "live_over_predicted"})
    cells.emplace_back(name);
  std::string csv = csv_line(cells);
  for (std::size_t i = 0; i < r.plan.points.size(); ++i) {
    const LivePoint& live = r.plan.points[i];
    const std::vector<const Job*> runs = runs_of(r, live);
    if (runs.empty()) continue;
    const std::vector<double> times = figures_of(runs, kParallel);
    const std::optional<double> time = median_of(times), predicted = predicted_ns(r.simulated(i));
    const auto end = [&](auto choose) {
      return times.empty() ? std::string() : cell(*choose(times.begin(), times.end()));
    };
    cells = point_cells(r.study.varied, r.study.points[i]);
    cells.push_back(std::to_string(times.size()));
    cells.push_back(std::to_string(live.threads));
    cells.push_back(std::to_string(r.plan.host.processors));
    cells.emplace_back(live.oversubscribed ? "yes" : "no");
    cells.emplace_back(word_of(verified_of(runs)));
    cells.push_back(cell(time));
    cells.push_back(end([](auto a, auto b) { return std::min_element(a, b); }));
    cells.push_back(end([](auto a, auto b) { return std::max_element(a, b); }));
    cells.push_back(cell(median_of(figures_of(runs, kMessages))));
    cells.push_back(cell(median_of(figures_of(runs, kBytes))));
    cells.push_back(cell(predicted));
    cells.push_back(time && predicted && *predicted > 0 ? fmt::format("{:.4g}", *time / *predicted) : "");
    csv += csv_line(cells);
  }
  return csv;
}

OrderedJson live_json(const LiveResults& r) {
  OrderedJson json;
  json["host"] = r.plan.host.name;
  json["processors"] = r.plan.host.processors;
  json["oversubscribe"] = r.plan.oversubscribe;
  json["repetitions"] = r.study.repetitions;
  OrderedJson failed = OrderedJson::array(), refused = failed, simulated = failed;
  std::size_t missing = 0;
  for (const Job& job : r.jobs) {
    if (job.state == Job::State::kFailed) failed.push_back(entry(*job.point, r.study, job.failure));
    if (!job.is_over()) ++missing;
  }
  for (std::size_t i = 0; i < r.plan.points.size(); ++i) {
    const LivePoint& live = r.plan.points[i];
    if (!live.refused.empty()) refused.push_back(entry(r.study.points[i], r.study, live.refused));
    if (!live.only_simulated.empty())
      simulated.push_back(entry(r.study.points[i], r.study, live.only_simulated));
  }
  json["failed"] = std::move(failed);
  json["refused"] = std::move(refused);
  json["only_simulated"] = std::move(simulated);
  json["missing"] = missing;
  return json;
}

}  // namespace braid::cli
