// Carries a study out: a process of `braid sim` for each point, several at a time, each on a processor of its
// own. What is finished stays so, however the study ends; the same command goes on where it ended.
#pragma once

#include <string>

#include "base/result.h"
#include "tools/braid/study.h"

namespace braid::cli {

struct StudyOptions {
  std::string folder;  // of its results; made if it is missing
  unsigned jobs = 0;   // points under way at a time; 0: one for each processor that this process may use
};

// Some points failed.
inline constexpr int kFailedPointsStatus = 1;

// Runs what is missing, and writes points.csv and study.json of what is finished. Progress goes to standard
// error, with what failed and how to repeat it. Returns the command's status: 0, kFailedPointsStatus, or 128
// + the signal that ended it early. An error: it could not begin, or not write.
Result<int> carry_out(const Study& study, const StudyOptions& options);

}  // namespace braid::cli
