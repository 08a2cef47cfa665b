#include "tools/braid/study/study_runner.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/study/jobs.h"
#include "tools/braid/study/progress.h"
#include "tools/braid/study/study_results.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The folder of a study's results, locked while this object lives.
class StudyFolder {
 public:
  static Result<StudyFolder> open(const std::string& name) {
    std::error_code problem;
    std::filesystem::create_directories(name + "/points", problem);
    if (problem) return error("{}: cannot be made: {}", name + "/points", problem.message());
    const std::string path = name + "/lock";
    Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock) return error("{}: cannot be written: {}", path, cause_and_cure(errno));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return error("{}: another study is writing there; wait for its end, or name another folder", name);
    return StudyFolder(name, std::move(lock));
  }

  std::string file(const char* name) const { return name_ + "/" + name; }
  // The file of a point: "….yaml".
  std::string file_of(const std::string& point, const char* ending) const {
    return fmt::format("{}/points/{}{}", name_, point, ending);
  }

 private:
  StudyFolder(std::string name, Descriptor lock) : name_(std::move(name)), lock_(std::move(lock)) {}

  std::string name_;
  Descriptor lock_;
};

// How long points took in former runs of this folder's, whatever has changed since: programs, engine or model.
class FormerRuns {
 public:
  explicit FormerRuns(const std::string& points) {
    std::error_code problem;
    for (std::filesystem::directory_iterator it(points, problem), end; !problem && it != end;
         it.increment(problem)) {
      if (it->path().extension() != ".json") continue;
      std::ifstream file(it->path());
      const OrderedJson json = OrderedJson::parse(file, nullptr, false);
      if (!json.is_object() || !json.contains("origin") || !json.contains("seconds") ||
          !json["seconds"].is_number())
        continue;
      const OrderedJson::json_pointer command("/report/command"), settings("/origin/settings");
      if (json.contains(command) && json.contains(settings))
        seconds_[key(json[command], nlohmann::json(json[settings]))] = json["seconds"].get<double>();
    }
  }

  std::function<std::optional<double>(const StudyPoint&)> expected() const {
    return [this](const StudyPoint& point) -> std::optional<double> {
      const auto found = seconds_.find(key(point.command(), settings_of(point)));
      return found == seconds_.end() ? std::nullopt : std::optional(found->second);
    };
  }

 private:
  static std::string key(const OrderedJson& command, const nlohmann::json& settings) {
    return command.dump() + settings.dump();
  }

  std::map<std::string, double> seconds_;
};

class StudyRunner {
 public:
  StudyRunner(const Study& study, const StudyPlan& plan, const StudyOptions& options, StudyFolder folder)
      : study_(study),
        plan_(plan),
        options_(options),
        limit_s_(options.limit_s.value_or(study.limit_s.value_or(kUsualLimitS))),
        folder_(std::move(folder)),
        jobs_(study, plan.origins, options.jobs > 0 ? options.jobs : processors_.size(),
              [this](const std::string& name, const nlohmann::json& origin) {
                return load_result(folder_.file_of(name, ".json"), origin);
              }) {}

  Result<int> run() {
    Result<ChildProcesses> children = ChildProcesses::create({.signals = {SIGINT, SIGTERM, SIGHUP}});
    if (!children) return children.error();
    jobs_.expect(FormerRuns(folder_.file("points")).expected());
    progress_.tell_beginning(monotonic_now());
    if (const Result<void> done = run_all(*children); !done) return done.error();
    if (const Result<void> done = write_results(); !done) return done.error();
    return conclude();
  }

 private:
  // --- Runs

  Result<void> run_all(ChildProcesses& children) {
    Result<void> problem;
    while (interrupted_ == 0) {
      if (problem = start_some(children); !problem || running_.empty()) break;
      children.wait(progress_.next_deadline(monotonic_now()));
      for (const int signal : children.take_signals()) interrupted_ = signal;
      if (problem = take_ended(children); !problem) break;
      progress_.show(monotonic_now());
    }
    progress_.end_line();
    children.stop_all();
    give_up_running();
    return problem;
  }

  Result<void> start_some(ChildProcesses& children) {
    while (const std::optional<Jobs::Id> id = jobs_.start_next(monotonic_now())) {
      const Result<ChildId> started = start(*id, children);
      if (!started) {
        jobs_.give_up(*id);
        return started.error();
      }
      running_[*started] = *id;
    }
    return {};
  }

  std::vector<std::string> command_of(const Job& job, bool to_repeat) const {
    std::vector<std::string> words = {plan_.engine, "sim"};
    if (!to_repeat) words.insert(words.end(), {"--quiet", "--report", folder_.file_of(job.name, ".report")});
    words.insert(words.end(), {"--config", folder_.file_of(job.name, ".yaml")});
    const std::vector<std::string> command = job.point->command();
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  Result<ChildId> start(Jobs::Id id, ChildProcesses& children) {
    const Job& job = jobs_[id];
    const std::string settings = fmt::format("# {}\n{}", describe(*job.point, study_.varied),
                                             settings_yaml(*job.point, jobs_.message_bytes(id)));
    if (const Result<void> written = write_file(folder_.file_of(job.name, ".yaml"), settings); !written)
      return written.error();
    const std::string log = folder_.file_of(job.name, ".log");
    const Descriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!output) return error("{}: cannot be written: {}", log, cause_and_cure(errno));
    ProcessOptions process;
    process.path = plan_.engine;
    process.arguments = command_of(job, false);
    for (char** v = ::environ; *v != nullptr; ++v) process.environment.emplace_back(*v);
    process.output_fd = output.get();
    process.processor = processors_.empty() ? -1 : processors_[job.slot % processors_.size()];
    const Instant deadline =
        limit_s_ > 0 ? job.begun + Duration::ns(static_cast<std::int64_t>(limit_s_ * 1e9)) : Instant::never();
    return children.start(process, "", deadline);
  }

  Result<void> take_ended(ChildProcesses& children) {
    for (const EndedChild& ended : children.take_ended()) {
      const auto id = running_.extract(ended.child).mapped();
      if (const Result<void> done = finish(id, ended); !done) return done;
      progress_.tell_end_of(jobs_[id], monotonic_now());
    }
    return {};
  }

  // A failed point is not stored: the next study that has it tries again.
  Result<void> finish(Jobs::Id id, const EndedChild& ended) {
    const Job& job = jobs_[id];
    const std::string report = folder_.file_of(job.name, ".report");
    std::ifstream file(report);
    OrderedJson json = OrderedJson::parse(file, nullptr, false);
    std::filesystem::remove(report);
    if (ended.timed_out) {
      jobs_.fail(id,
                 fmt::format("was stopped: it took longer than {} s; --limit, or 'limit_s' in the study's "
                             "file, gives it more",
                             limit_s_));
    } else if (ended.wait_status != 0) {
      jobs_.fail(id, describe_end(ended.wait_status));
    } else if (!json.is_object()) {
      jobs_.fail(id, "wrote no report");
    } else {
      jobs_.finish(id, {(monotonic_now() - job.begun).s(), std::move(json)});
      return store_result(folder_.file_of(job.name, ".json"), *job.origin, *job.result);
    }
    return {};
  }

  // Their work is lost; finished points are stored.
  void give_up_running() {
    for (const auto& [child, id] : running_) {
      jobs_.give_up(id);
      std::error_code ignored;
      std::filesystem::remove(folder_.file_of(jobs_[id].name, ".report"), ignored);
    }
    running_.clear();
  }

  // --- Results

  OrderedJson described(const StudyPoint& point, const Job& job) const {
    OrderedJson json;
    json["point"] = job.name;
    json["application"] = point.application;
    json["arguments"] = point.arguments;
    json["settings"] = given_settings(point);
    for (const auto& [name, value] : point.varied_arguments) json["varied_arguments"][name] = value;
    return json;
  }

  std::string repeat(const Job& job) const {
    std::string line;
    for (const std::string& word : command_of(job, true)) line += (line.empty() ? "" : " ") + for_shell(word);
    return line;
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
        json["repeat"] = repeat(job);
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
    return write_file(folder_.file("points.csv"), points_csv(study_.varied, rows_));
  }

  int conclude() const {
    const std::size_t done = jobs_.count(Job::State::kDone), failed = jobs_.count(Job::State::kFailed);
    if (interrupted_ != 0)
      std::fprintf(stderr,
                   "braid study: interrupted; %zu of %zu are finished, and the same command runs the rest\n",
                   done, jobs_.size());
    if (failed > 0) std::fprintf(stderr, "braid study: %zu of %zu failed:\n", failed, jobs_.size());
    for (const Job& job : jobs_) {
      if (job.state != Job::State::kFailed) continue;
      std::fprintf(stderr, "  %s: %s; its output is in %s\n    %s\n",
                   describe(*job.point, study_.varied).c_str(), job.failure.c_str(),
                   folder_.file_of(job.name, ".log").c_str(), repeat(job).c_str());
    }
    if (interrupted_ == 0)
      std::fprintf(stderr, "braid study: %zu points in %s\n", rows_.size(),
                   folder_.file("points.csv").c_str());
    return interrupted_ != 0 ? 128 + interrupted_ : failed > 0 ? kFailedPointsStatus : 0;
  }

  const Study& study_;
  const StudyPlan& plan_;
  const StudyOptions& options_;
  const double limit_s_;  // 0: no limit
  const std::vector<int> processors_ = usable_processors();
  const StudyFolder folder_;
  Jobs jobs_;
  StudyProgress progress_{study_, jobs_};
  std::map<ChildId, Jobs::Id> running_;
  std::vector<Row> rows_;  // of finished points
  int interrupted_ = 0;    // the signal that interrupted it
};

}  // namespace

Result<StudyPlan> plan_study(const Study& study) {
  const Result<std::string> engine = find_study_engine();
  if (!engine) return engine.error();
  StudyPlan plan{*engine, {}};
  StudyPrograms programs(plan.engine, models_folder());
  for (const StudyPoint& point : study.points) {
    Result<nlohmann::json> origin = programs.origin(point);
    if (!origin) return origin.error();
    if (const Result<void> good = programs.check(point); !good)
      return error("{} (in the point {})", good.error().text, describe(point, study.varied));
    plan.origins.push_back(std::move(*origin));
  }
  return plan;
}

void list_points(const Study& study, const StudyPlan& plan, const StudyOptions& options) {
  const std::string points = options.folder + "/points";
  Jobs jobs(study, plan.origins, options.jobs > 0 ? options.jobs : usable_processors().size(),
            [&](const std::string& name, const nlohmann::json& origin) {
              return options.folder.empty() ? std::nullopt
                                            : load_result(points + "/" + name + ".json", origin);
            });
  if (!options.folder.empty()) jobs.expect(FormerRuns(points).expected());
  std::string list;
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (!jobs.of_point(i).result) list += describe(study.points[i], study.varied) + "\n";
  }
  print(list);
  std::fprintf(stderr, "braid study: %s\n", describe_beginning(study, jobs, monotonic_now()).c_str());
}

Result<int> carry_out(const Study& study, const StudyPlan& plan, const StudyOptions& options) {
  Result<StudyFolder> folder = StudyFolder::open(options.folder);
  if (!folder) return folder.error();
  return StudyRunner(study, plan, options, std::move(*folder)).run();
}

StudyReports reports_of(const Study& study, const StudyOptions& options) {
  const Result<StudyPlan> plan = plan_study(study);
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
