#include "tools/braid/study/task_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "base/json.h"
#include "settings/document.h"
#include "tools/braid/study/study_results.h"

namespace braid::cli {

using Json = nlohmann::json;

namespace {

constexpr std::string_view kDone = "point done: ", kFailed = "point failed: ", kWhy = ": ";

}  // namespace

Task::Point task_point(std::size_t index, const std::string& name, const Json& origin) {
  Task::Point point{index, name, Json::object()};
  for (const char* const key : {"engine", "program", "model"}) point.contents[key] = origin[key];
  return point;
}

std::string task_text(const Task& task) {
  Json json = {{"braid", task.version},
               {"file", task.file},
               {"text", task.text},
               {"limit_s", task.limit_s},
               {"points", Json::array()}};
  for (const Task::Point& point : task.points)
    json["points"].push_back({{"index", point.index}, {"name", point.name}, {"contents", point.contents}});
  return json.dump(1) + "\n";
}

Result<Task> read_task(const std::string& path) {
  const Result<std::string> text = settings::read_text_file(path);
  if (!text) return text.error();
  try {
    const Json json = Json::parse(*text);
    Task task{json.at("braid"), json.at("file"), json.at("text"), json.at("limit_s"), {}};
    for (const Json& point : json.at("points"))
      task.points.push_back({point.at("index"), point.at("name"), point.at("contents")});
    return task;
  } catch (const Json::exception&) {
    return error(
        "{}: is no task of a study, or cut short; a task is a file in 'tasks/' of the study's folder", path);
  }
}

std::vector<std::vector<Jobs::Id>> share_out(const Jobs& jobs, std::size_t most) {
  std::map<Jobs::Id, std::vector<Jobs::Id>> chains;  // by their first job
  for (Jobs::Id id = 0; id < jobs.size(); ++id) {
    if (!jobs[id].is_over()) chains[jobs[id].waits_for.value_or(id)];
  }
  for (auto& [first, chain] : chains) chain.push_back(first);
  for (Jobs::Id id = 0; id < jobs.size(); ++id) {
    if (!jobs[id].is_over() && jobs[id].waits_for) chains[*jobs[id].waits_for].push_back(id);
  }
  std::vector<std::vector<Jobs::Id>> tasks(std::min(most, chains.size()));
  std::size_t next = 0;
  for (const auto& [first, chain] : chains) {
    std::vector<Jobs::Id>& task = tasks[next++ % tasks.size()];
    task.insert(task.end(), chain.begin(), chain.end());
  }
  return tasks;
}

std::string describe_outcomes(const Jobs& jobs) {
  std::string text;
  for (const Job& job : jobs) {
    if (job.state == Job::State::kDone) text += fmt::format("{}{}\n", kDone, job.name);
    if (job.state == Job::State::kFailed)
      text += fmt::format("{}{}{}{}\n", kFailed, job.name, kWhy, job.failure);
  }
  return text;
}

std::map<std::string, std::string> outcomes_in(const std::string& log) {
  std::map<std::string, std::string> outcomes;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kDone)) outcomes[line.substr(kDone.size())] = "";
    if (!line.starts_with(kFailed)) continue;
    const std::string rest = line.substr(kFailed.size());
    const std::size_t end = rest.find(kWhy);
    if (end != std::string::npos) outcomes[rest.substr(0, end)] = rest.substr(end + kWhy.size());
  }
  return outcomes;
}

}  // namespace braid::cli
