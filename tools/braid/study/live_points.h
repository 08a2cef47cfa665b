// The live runs of a study: which of its points a host can run, in which order, and the tables of what came of them. Pure.
//
// A live run's machine has the point's clusters, compute nodes, proxies, application and arguments, and those of its settings that
// shape live runs. Points that differ only in what the prediction costs (model, cycles) or in a seed that nothing draws share
// their live runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tools/braid/study/jobs.h"
#include "tools/braid/study/study.h"
#include "tools/braid/study/study_results.h"

namespace braid::cli {

// What a live run is called where progress is told.
inline constexpr char kLiveRun[] = "live run";

// The live side of a point of the study.
struct LivePoint {
  std::string only_simulated;   // what it has that no host has: "simulation.mode no-delay"; empty: nothing
  std::string refused;          // why it does not run here; empty: it runs, or is only simulated
  unsigned threads = 0;         // compute nodes and proxies
  bool oversubscribed = false;  // there are fewer processors
  // Its first repetition in LivePlan::runs.
  std::optional<std::size_t> first;
};

struct LivePlan {
  LiveHost host;
  bool oversubscribe = false;
  std::vector<LivePoint> points;  // as the study's
  // Each a point with its repetition, in the order in which they run: one of each, then the second of each ...
  Study runs;
  std::vector<nlohmann::json> origins;  // of `runs`
  std::size_t different = 0;            // points among them: the next repetition of one is so many further
};

// What this point has that no host has, as "key value"; empty: nothing.
std::string only_simulated(const StudyPoint& point);
// The relations between a live run's settings, which knows no model.
Result<void> check_live(const StudyPoint& point);

// Error: a program does not exist, settings contradict one another, or no point can run here.
Result<LivePlan> plan_live_runs(const Study& study, StudyPrograms& programs, const LiveHost& host,
                                const std::string& folder, bool oversubscribe);

// "braid study: 2 points are refused ...", lines for people about points that do not run live; empty: all do.
std::string describe_refusals(const Study& study, const LivePlan& plan);

// What is known of a study's points, for its tables.
struct LiveResults {
  const Study& study;
  const LivePlan& plan;
  const Jobs& jobs;  // of plan.runs
  // Of the simulation of a point; null: it has not finished.
  std::function<const PointResult*(std::size_t point)> simulated;
};

// live.csv: a row for each point and repetition that has ended: the settings, then repetition, threads, processors, oversubscribed,
// parallel_ns, messages, bytes, verified (yes, no; empty: the program does not say), failure and run, which equal ones share.
std::string live_csv(const LiveResults& results);
// live_medians.csv: a row for each point that has run live: medians of live.csv, the least and the greatest time, and the prediction.
std::string live_medians_csv(const LiveResults& results);
// live.json: the host, and which points failed, were refused, are only simulated or have not run yet.
nlohmann::ordered_json live_json(const LiveResults& results);

}  // namespace braid::cli
