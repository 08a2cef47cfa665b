// Carries out a study: a process of `braid sim` per point, several at a time, each on a processor
// of its own; then its live runs, if it has such (live_runner.h). What is finished is stored, however the
// study ends; the same command continues it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tools/braid/study/live_points.h"
#include "tools/braid/study/study.h"
#include "tools/braid/study/task_launcher.h"

namespace braid::cli {

struct StudyOptions {
  std::string folder;  // for the results; made if it is missing
  unsigned jobs = 0;   // concurrent points; 0: one for each processor that this process may use
  // The time limit of a point; 0: none. If it is not given, Study::limit_s, or else kUsualLimitS.
  std::optional<double> limit_s;
  std::shared_ptr<TaskLauncher> launcher{};  // of tasks that run the points elsewhere; null: they run here
};

// A point that takes longer is considered stuck, unless another limit is given.
inline constexpr double kUsualLimitS = 3600;

// The programs that run a study's points, and the inputs that determine each result (study_results.h).
struct StudyPlan {
  std::string engine;
  std::vector<nlohmann::json> origins;  // by point
  std::optional<LivePlan> live;         // of a study with live runs
};
// Error: a program or a model does not exist, settings contradict one another, or live runs are wanted and none can be.
// `oversubscribe`: live runs may have more threads than there are processors.
Result<StudyPlan> plan_study(const Study& study, bool oversubscribe);

// The status if some points failed, or are refused as live runs.
inline constexpr int kFailedPointsStatus = 1;

// Runs the missing points, and writes points.csv, queues.csv and study.json of the
// finished ones, and of live runs live.csv, live_medians.csv and live.json. Progress is written to standard error, with failed points and how
// to repeat them. Returns the command's status: 0, kFailedPointsStatus, or 128 + the
// signal that ended it early. Error: the folder, or a file in it, cannot be written.
Result<int> carry_out(const Study& study, const StudyPlan& plan, const StudyOptions& options);

// Runs the task of this file, and tells of its points on standard error. Returns the command's status; an error ends the command
// (refuse()).
int run_task(const std::string& path);

// The same for a study that a command has made: plans it, carries it out in this folder, and reads the reports of its points, in their
// order. `status`: of carry_out(); reports are there if it is 0. An error ends the command (refuse()).
struct StudyReports {
  int status = 0;
  std::vector<nlohmann::ordered_json> reports;
};
StudyReports reports_of(const Study& study, const StudyOptions& options);

// Writes the points that are left to standard output, and how many there are and about how long they take to standard error.
// Without a folder: all points. The folder need not exist, and is not changed.
void list_points(const Study& study, const StudyPlan& plan, const StudyOptions& options);

}  // namespace braid::cli
