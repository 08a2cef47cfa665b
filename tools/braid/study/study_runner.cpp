#include "tools/braid/study/study_runner.h"

#include <fmt/core.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/processors.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/core_claims.h"
#include "tools/braid/run/topology.h"
#include "tools/braid/study/job_runner.h"
#include "tools/braid/study/jobs.h"
#include "tools/braid/study/live_runner.h"
#include "tools/braid/study/mean_value.h"
#include "tools/braid/study/progress.h"
#include "tools/braid/study/study_folder.h"
#include "tools/braid/study/study_results.h"
#include "tools/braid/study/task_file.h"
#include "tools/braid/study/task_runner.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

double limit_of(const Study& study, const StudyOptions& options) {
  return options.limit_s.value_or(study.limit_s.value_or(kUsualLimitS));
}

// Each simulated point runs on a processor of its own.
class Simulations : public JobRunner {
 public:
  // `processors`: one for each slot in turn; none: they may choose.
  Simulations(const Study& study, Jobs& jobs, const StudyFolder& folder, const std::string& engine,
              double limit_s, std::vector<unsigned> processors)
      : JobRunner(study, jobs, folder, engine, "point", limit_s),
        jobs_(jobs),
        processors_(std::move(processors)) {}

 private:
  const char* subcommand() const override { return "sim"; }
  std::string settings_of(Jobs::Id id) const override {
    return settings_yaml(*jobs_[id].point, jobs_.message_bytes(id));
  }
  int processor_of(const Job& job) const override {
    return processors_.empty() ? -1 : static_cast<int>(processors_[job.slot % processors_.size()]);
  }
  std::string examine(OrderedJson&, const std::string&) const override { return ""; }

  const Jobs& jobs_;
  const std::vector<unsigned> processors_;
};

Jobs::Kept kept_in(const StudyFolder& folder) {
  return [&](const std::string& name, const nlohmann::json& origin) {
    return load_result(folder.file_of(name, ".json"), origin);
  };
}

// The simulated points of a study, and what is written about them.
class StudyRunner {
 public:
  StudyRunner(const Study& study, const StudyPlan& plan, const StudyOptions& options,
              const StudyFolder& folder)
      : study_(study),
        folder_(folder),
        jobs_(study, plan.origins, options.jobs > 0 ? options.jobs : processors_of_this_thread().size(),
              kept_in(folder)),
        simulations_(study, jobs_, folder, plan.engine, limit_of(study, options),
                     processors_of_this_thread()) {
    if (options.launcher) tasks_.emplace(study, jobs_, folder, *options.launcher, limit_of(study, options));
  }

  // Returns the command's status.
  Result<int> run(ChildProcesses& children) {
    const FormerRuns former(folder_.file("points"));
    jobs_.expect(
        [&](const StudyPoint& point) { return former.seconds(point.command(), settings_of(point)); });
    const Result<int> interrupted = tasks_ ? tasks_->run(children) : simulations_.run(children);
    if (!interrupted) return interrupted;
    if (const Result<void> done = write_results(); !done) return done.error();
    if (tasks_) tasks_->tell_failures();
    simulations_.tell_failures(*interrupted);
    if (*interrupted != 0) return 128 + *interrupted;
    std::fprintf(stderr, "braid study: %zu points in %s\n", rows_.size(), folder_.file("points.csv").c_str());
    return jobs_.count(Job::State::kFailed) > 0 ? kFailedPointsStatus : 0;
  }

  // Of the study's points; null: it has not finished.
  const PointResult* result_of(std::size_t point) const {
    const Job& job = jobs_.of_point(point);
    return job.result ? &*job.result : nullptr;
  }

 private:
  OrderedJson described(const StudyPoint& point, const Job& job) const {
    OrderedJson json;
    json["point"] = job.name;
    json["application"] = point.application;
    json["arguments"] = point.arguments;
    json["settings"] = given_settings(point);
    for (const auto& [name, value] : point.varied_arguments) json["varied_arguments"][name] = value;
    return json;
  }

  Result<void> write_results() {
    OrderedJson points = OrderedJson::array(), failed = OrderedJson::array();
    std::size_t missing = 0;
    for (std::size_t i = 0; i < study_.points.size(); ++i) {
      const StudyPoint& point = study_.points[i];
      const Job& job = jobs_.of_point(i);
      OrderedJson json = described(point, job);
      if (job.result) {
        rows_.push_back({&point, job.name, *job.result});
        json["seconds"] = job.result->seconds;
        json["report"] = job.result->report;
        points.push_back(std::move(json));
      } else if (job.state == Job::State::kFailed) {
        json["failure"] = job.failure;
        json["repeat"] = simulations_.repeat(job);
        failed.push_back(std::move(json));
      } else {
        ++missing;
      }
    }
    OrderedJson all;
    all["braid"] = kVersion;
    all["file"] = study_.file;
    all["text"] = study_.text;
    all["varied"] = study_.varied;
    all["points"] = std::move(points);
    all["failed"] = std::move(failed);
    all["missing"] = missing;
    if (const Result<void> done = write_file(folder_.file("study.json"), all.dump(1) + "\n"); !done)
      return done;
    if (const Result<void> done = write_file(folder_.file("queues.csv"), queues_csv(rows_)); !done)
      return done;
    if (const Result<void> done = write_file(folder_.file("mva.csv"), mva_csv(study_.varied, rows_)); !done)
      return done;
    return write_file(folder_.file("points.csv"), points_csv(study_.varied, rows_));
  }

  const Study& study_;
  const StudyFolder& folder_;
  Jobs jobs_;
  Simulations simulations_;
  std::optional<TaskRunner> tasks_;  // of a study whose points run elsewhere
  std::vector<Row> rows_;            // of finished points
};

}  // namespace

Result<StudyPlan> plan_study(const Study& study, bool oversubscribe) {
  const Result<std::string> engine = find_study_engine();
  if (!engine) return engine.error();
  StudyPlan plan{*engine, {}, {}};
  StudyPrograms programs(plan.engine, models_folder());
  for (const StudyPoint& point : study.points) {
    Result<nlohmann::json> origin = programs.origin(point);
    if (!origin) return origin.error();
    if (const Result<void> good = programs.check(point); !good)
      return error("{} (in the point {})", good.error().text, describe(point, study.varied));
    plan.origins.push_back(std::move(*origin));
  }
  if (!study.live) return plan;
  Result<LivePlan> live = plan_live_runs(study, programs, this_host(), own_folder(), oversubscribe);
  if (!live) return live.error();
  plan.live = std::move(*live);
  return plan;
}

void list_points(const Study& study, const StudyPlan& plan, const StudyOptions& options) {
  const std::string points = options.folder + "/points";
  const auto kept = [&](const std::string& name, const nlohmann::json& origin) {
    return options.folder.empty() ? std::nullopt : load_result(points + "/" + name + ".json", origin);
  };
  const FormerRuns former(options.folder.empty() ? "" : points);
  Jobs jobs(study, plan.origins, options.jobs > 0 ? options.jobs : processors_of_this_thread().size(), kept);
  jobs.expect([&](const StudyPoint& point) { return former.seconds(point.command(), settings_of(point)); });
  std::string list;
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (!jobs.of_point(i).result) list += describe(study.points[i], study.varied) + "\n";
  }
  std::string summary = describe_beginning(study, jobs, "point", monotonic_now());
  std::string refusals;
  if (plan.live) {
    Jobs live(plan.live->runs, plan.live->origins, 1, kept);
    live.expect(
        [&](const StudyPoint& point) { return former.seconds(point.command(), live_settings_of(point)); });
    for (const Job& job : live)
      if (!job.result) list += describe(*job.point, study.varied) + "\n";
    summary += "\nbraid study: " + describe_beginning(plan.live->runs, live, kLiveRun, monotonic_now());
    refusals = describe_refusals(study, *plan.live);
  }
  print(list);
  std::fprintf(stderr, "braid study: %s\n%s", summary.c_str(), refusals.c_str());
}

Result<int> carry_out(const Study& study, const StudyPlan& plan, const StudyOptions& options) {
  const Result<StudyFolder> folder = StudyFolder::open(options.folder);
  if (!folder) return folder.error();
  Result<ChildProcesses> children = ChildProcesses::create({.signals = {SIGINT, SIGTERM, SIGHUP}});
  if (!children) return children.error();
  const std::string tasks = std::filesystem::absolute(folder->file("tasks")).lexically_normal();
  if (const Result<void> ended = end_former_tasks(tasks); !ended) return ended.error();
  StudyRunner simulations(study, plan, options, *folder);
  const Result<int> simulated = simulations.run(*children);
  if (!simulated) return simulated;
  if (!plan.live) {
    remove_live_results(*folder);
    return simulated;
  }
  LiveRunner live(study, *plan.live, plan.engine, *folder, limit_of(study, options));
  const bool interrupted = *simulated > 128;
  Result<int> live_interrupted = 0;
  if (!interrupted) live_interrupted = live.run(*children);
  if (!live_interrupted) return live_interrupted;
  if (const Result<void> done =
          live.write_results([&](std::size_t point) { return simulations.result_of(point); });
      !done)
    return done.error();
  return interrupted ? *simulated : std::max(*simulated, live.conclude(*live_interrupted));
}

namespace {

// Of this process, which may be one of several of this host: no other run has it. None: there is none to spare.
std::vector<unsigned> claim_processor(CoreClaims& claims) {
  const Result<HostProcessors> host = own_processors({});
  const ClusterNeeds needs{.cluster = 0, .proxies = 0, .nodes = 1};
  if (!host) return {};
  const Placement placement = claims.place(*host, {&needs, 1});
  return placement.clusters.empty() ? std::vector<unsigned>() : placement.clusters.front().nodes;
}

[[noreturn]] void refuse_task(const std::string& why) {
  refuse(kConfigStatus, fmt::format("host {}: {}", this_host().name, why));
}

// The points of the task, with their settings.
Study study_of(const Task& task) {
  const Result<Study> whole = parse_study(task.text, task.file);
  if (!whole) refuse_task(whole.error().text);
  Study study = *whole;
  study.points.clear();
  for (const Task::Point& point : task.points) study.points.push_back(whole->points.at(point.index));
  return study;
}

// Results of other programs are not those that the command waits for.
void check_contents(const Task& task, const StudyPlan& plan) {
  for (std::size_t i = 0; i < task.points.size(); ++i) {
    const Task::Point& wanted = task.points[i];
    if (name_of(plan.origins[i]) == wanted.name) continue;
    const Task::Point here = task_point(wanted.index, name_of(plan.origins[i]), plan.origins[i]);
    for (const auto& [what, hash] : wanted.contents.items())
      if (here.contents[what] != hash)
        refuse_task(
            fmt::format("the file of the {} has other contents than where the study was begun ({}); give all "
                        "hosts the same files",
                        what == "engine" ? "command braid" : what,
                        what == "engine" ? plan.engine : "folder of " + plan.engine));
    refuse_task("settings mean something else than where the study was begun; give all hosts the same files");
  }
}

}  // namespace

int run_task(const std::string& path) {
  const Result<Task> task = read_task(path);
  if (!task)
    refuse_task(fmt::format("{}; the folder of a study must be on a file system that all hosts share",
                            task.error().text));
  if (task->version != kVersion)
    refuse_task(
        fmt::format("this braid is version {}, the one that has begun the study is {}; give all hosts the "
                    "same",
                    kVersion, task->version));
  const Study study = study_of(*task);
  const Result<StudyPlan> plan = plan_study(study, /*oversubscribe=*/false);
  if (!plan) refuse_task(plan.error().text);
  check_contents(*task, *plan);
  const StudyFolder folder =
      StudyFolder::of_task(std::filesystem::absolute(path).parent_path().parent_path());
  Jobs jobs(study, plan->origins, 1, kept_in(folder));
  CoreClaims claims;
  Simulations simulations(study, jobs, folder, plan->engine, task->limit_s, claim_processor(claims));
  Result<ChildProcesses> children = ChildProcesses::create({.signals = {SIGINT, SIGTERM, SIGHUP}});
  if (!children) refuse_task(children.error().text);
  const Result<int> interrupted = simulations.run(*children);
  std::fputs(describe_outcomes(jobs).c_str(), stderr);
  if (!interrupted) refuse_task(interrupted.error().text);
  if (*interrupted != 0) return 128 + *interrupted;
  return jobs.count(Job::State::kFailed) > 0 ? kFailedPointsStatus : 0;
}

StudyReports reports_of(const Study& study, const StudyOptions& options) {
  if (study.live)
    refuse(kConfigStatus,
           fmt::format("{}: key 'engine': live runs have no part in this command; remove it", study.file));
  const Result<StudyPlan> plan = plan_study(study, /*oversubscribe=*/false);
  if (!plan) refuse(kConfigStatus, plan.error().text);
  const Result<int> status = carry_out(study, *plan, options);
  if (!status) refuse(kCannotCreateStatus, status.error().text);
  StudyReports all{.status = *status, .reports = {}};
  if (*status != 0) return all;
  std::ifstream file(options.folder + "/study.json");
  const auto results = nlohmann::ordered_json::parse(file, nullptr, false);
  for (const auto& point : results["points"]) all.reports.push_back(point["report"]);
  return all;
}

}  // namespace braid::cli
