#include "tools/braid/study/task_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "base/process_end.h"
#include "tools/braid/find_program.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/study/study_results.h"
#include "tools/braid/study/task_file.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

// A look asks for the result of each point that may run.
constexpr Duration kShortInterval = 200_ms, kLongInterval = 1_s;
constexpr std::size_t kManyPoints = 100;
// A network file system may show a new file this late (acdirmax of nfs(5)).
constexpr Duration kMaxHidden = 60_s;

}  // namespace

std::string TaskFolder::shell_line(const std::string& task) const {
  return fmt::format("cd {} && exec {} study {}{}.json --task", for_shell(home), for_shell(braid),
                     for_shell(path + "/"), task);
}

TaskRunner::TaskRunner(const Study& study, Jobs& jobs, const StudyFolder& folder, TaskLauncher& launcher,
                       double limit_s)
    : study_(study),
      jobs_(jobs),
      folder_(folder),
      launcher_(launcher),
      limit_s_(limit_s),
      progress_(study, jobs, "point") {}

Result<int> TaskRunner::run(ChildProcesses& children) {
  if (jobs_.count(Job::State::kDone) == jobs_.size()) {
    progress_.tell_beginning(monotonic_now());
    return 0;
  }
  if (const Result<void> prepared = prepare(); !prepared) return prepared.error();
  progress_.tell_beginning(monotonic_now());
  if (const Result<void> started = launcher_.start(tasks_folder_, tasks_.size(), children); !started)
    return started.error();
  start_jobs();
  int interrupted = 0;
  for (std::size_t settled = 0; interrupted == 0 && settled < tasks_.size();) {
    const Duration interval = running_.size() < kManyPoints ? kShortInterval : kLongInterval;
    children.wait(earlier(monotonic_now() + interval, progress_.next_deadline(monotonic_now())));
    for (const int signal : children.take_signals()) interrupted = signal;
    progress_.clear_line();  // the launcher has something to say now and then
    collect();
    for (TaskEnd& end : launcher_.take_ended(children, running_.empty()))
      ended_.push_back({std::move(end), monotonic_now() + kMaxHidden});
    settled += std::erase_if(ended_, [&](const Ended& ended) { return settle(ended); });
    progress_.show(monotonic_now());
  }
  progress_.end_line();
  if (interrupted != 0) {
    launcher_.cancel(children);
    collect();
  }
  give_up_running();
  return interrupted;
}

Result<void> TaskRunner::prepare() {
  const Result<std::size_t> most = launcher_.most_tasks();
  if (!most) return most.error();
  const Result<std::string> braid = own_program();
  if (!braid) return braid.error();
  std::error_code problem;
  tasks_folder_ = {fs::absolute(folder_.file("tasks"), problem).lexically_normal(), *braid,
                   fs::current_path(problem)};
  fs::remove_all(tasks_folder_.path, problem);
  if (!fs::create_directories(tasks_folder_.path, problem))
    return error("{}: cannot be made: {}", tasks_folder_.path, problem.message());
  tasks_ = share_out(jobs_, *most);
  Task task{kVersion, study_.file, study_.text, limit_s_, {}};
  if (const Result<void> written = write_file(tasks_folder_.file("check.json"), task_text(task)); !written)
    return written;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    task.points.clear();
    for (const Jobs::Id id : tasks_[i])
      task.points.push_back(task_point(static_cast<std::size_t>(jobs_[id].point - study_.points.data()),
                                       jobs_[id].name, *jobs_[id].origin));
    // The log is there before others write it, so that no file system remembers that it was not.
    for (const auto& [ending, text] : {std::pair{".json", task_text(task)}, {".log", std::string()}})
      if (const Result<void> written = write_file(tasks_folder_.file(fmt::format("{}{}", i, ending)), text);
          !written)
        return written;
  }
  jobs_.let_others_run(launcher_.at_a_time(tasks_.size()));
  return {};
}

void TaskRunner::start_jobs() {
  while (const std::optional<Jobs::Id> id = jobs_.start_next(monotonic_now())) running_.push_back(*id);
}

void TaskRunner::collect() {
  // To open a folder asks its server what is new there.
  std::error_code ignored;
  const fs::directory_iterator points(folder_.file("points"), ignored);
  const std::vector<Jobs::Id> running = running_;
  for (const Jobs::Id id : running) collect(id);
}

bool TaskRunner::collect(Jobs::Id id) {
  std::optional<PointResult> result =
      load_result(folder_.file_of(jobs_[id].name, ".json"), *jobs_[id].origin);
  if (!result) return false;
  std::erase(running_, id);
  jobs_.finish(id, std::move(*result));
  progress_.tell_end_of(jobs_[id], monotonic_now());
  start_jobs();
  return true;
}

std::string TaskRunner::log_of(std::size_t task) const {
  return tasks_folder_.file(fmt::format("{}.log", task));
}

bool TaskRunner::settle(const Ended& ended) {
  const TaskEnd& end = ended.end;
  const std::map<std::string, std::string> outcomes = outcomes_in(log_of(end.task));
  const std::string what = fmt::format("task {}{} {}", end.task, end.host.empty() ? "" : " on " + end.host,
                                       end.problem.empty() ? "ended without a result" : end.problem);
  bool all = true;
  std::vector<Jobs::Id> lost;
  for (const Jobs::Id id : tasks_[end.task]) {
    if (jobs_[id].is_over() || (jobs_[id].state == Job::State::kRunning && collect(id))) continue;
    auto told = outcomes.find(jobs_[id].name);
    // What ends a task may end the point's process before the task hears of it.
    if (told != outcomes.end() && !end.problem.empty() && told->second == describe_end(SIGTERM))
      told = outcomes.end();
    const bool is_done = told != outcomes.end() && told->second.empty();
    // One that waits for a result which is not to be seen waits, too.
    if (jobs_[id].state != Job::State::kRunning || (is_done && monotonic_now() < ended.until)) {
      all = false;
    } else if (told != outcomes.end() && !is_done) {
      fail(id, told->second);
    } else {
      lost.push_back(id);
      fail(id, what);
    }
  }
  if (!lost.empty()) lose(end, what, lost);
  return all;
}

void TaskRunner::lose(const TaskEnd& end, const std::string& what, const std::vector<Jobs::Id>& lost) {
  FailedTask failed{what, ""};
  const std::string log = log_of(end.task), lines = last_lines(log, "    | ");
  failed.output = lines.empty() ? end.said : fmt::format("  its output, {}, ends\n{}", log, lines);
  if (failed.output.empty() && !end.host.empty())
    failed.what += fmt::format(
        "; it wrote nothing: that host may not see {}, which must be on a file system that all hosts share",
        tasks_folder_.path);
  failed.what +=
      "; of its points these have no result: " + describe(*jobs_[lost.front()].point, study_.varied);
  if (lost.size() > 1) failed.what += fmt::format(" and {} more", lost.size() - 1);
  failed_.push_back(std::move(failed));
}

void TaskRunner::fail(Jobs::Id id, const std::string& why) {
  std::erase(running_, id);
  jobs_.fail(id, why);
  progress_.tell_end_of(jobs_[id], monotonic_now());
  start_jobs();
}

void TaskRunner::give_up_running() {
  for (const Jobs::Id id : running_) jobs_.give_up(id);
  running_.clear();
}

void TaskRunner::tell_failures() const {
  for (const FailedTask& failed : failed_) {
    std::fprintf(stderr, "braid study: %s\n%s", failed.what.c_str(), failed.output.c_str());
  }
}

}  // namespace braid::cli
