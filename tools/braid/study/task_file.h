// A task: points of a study that one process runs, one after the other, wherever Slurm or GNU parallel starts it. In the study's folder:
//
//   tasks/3.json   what it is to run: `braid study FOLDER/tasks/3.json --task`
//   tasks/3.log    what it said; at its end a line for each of its points
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/study/jobs.h"
#include "tools/braid/study/study.h"

namespace braid::cli {

struct Task {
  struct Point {
    std::size_t index = 0;  // in Study::points
    std::string name;       // of its files
    nlohmann::json
        contents;  // hashes of the files that determine its result, by what they are: "engine", "program", "model"
  };

  std::string version;  // of the command that made it
  std::string file;     // Study::file and Study::text
  std::string text;
  double limit_s = 0;  // of each point; 0: none
  std::vector<Point> points;
};

Task::Point task_point(std::size_t index, const std::string& name, const nlohmann::json& origin);

std::string task_text(const Task& task);
// Error: the file is not there or is none.
Result<Task> read_task(const std::string& path);

// The jobs that are left, for at most `most` tasks. A job that waits for another one (Job::waits_for) is in its task, after it; one that
// waits for a finished job is preceded by that.
std::vector<std::vector<Jobs::Id>> share_out(const Jobs& jobs, std::size_t most);

// The lines about its points, which are read from its log: by their names why they failed; empty: they did not.
std::string describe_outcomes(const Jobs& jobs);
std::map<std::string, std::string> outcomes_in(const std::string& log);

}  // namespace braid::cli
