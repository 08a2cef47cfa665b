// Carries a study out: a process of `braid sim` for each point, several at a time, each on a processor of its
// own. What is finished stays so, however the study ends; the same command goes on where it ended.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/study/study.h"

namespace braid::cli {

struct StudyOptions {
  std::string folder;  // of its results; made if it is missing
  unsigned jobs = 0;   // points at work at a time; 0: one for each processor that this process may use
  // That each point may take; 0: as long as it takes. Without it Study::limit_s holds, else kUsualLimitS.
  std::optional<double> limit_s;
};

// A point that takes longer is one that stands still, unless somebody has said otherwise.
inline constexpr double kUsualLimitS = 3600;

// What runs a study's points, and what the result of each follows from (study_results.h).
struct StudyPlan {
  std::string engine;
  std::vector<nlohmann::json> origins;  // by point
};
// An error: a program or a model is not there.
Result<StudyPlan> plan_study(const Study& study);

// Some points failed.
inline constexpr int kFailedPointsStatus = 1;

// Runs what is missing, and writes points.csv, queues.csv and study.json of what is finished. Progress goes
// to standard error, with what failed and how to repeat it. Returns the command's status: 0,
// kFailedPointsStatus, or 128 + the signal that ended it early. An error: the folder, or something in it,
// cannot be written.
Result<int> carry_out(const Study& study, const StudyPlan& plan, const StudyOptions& options);

}  // namespace braid::cli
