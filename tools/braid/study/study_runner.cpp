#include "tools/braid/study/study_runner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/process_end.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/study/study_results.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// A terminal's line is written anew so often.
constexpr Duration kRefresh = 1_s;

std::string describe_time(double seconds) {
  const long s = std::lround(std::max(0.0, seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

std::string for_shell(const std::string& word) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+%@";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// A run of the engine. Points that are alike in everything share one.
struct Job {
  const StudyPoint* point = nullptr;  // the first of them
  const Json* origin = nullptr;
  std::string name;
  std::size_t waits_for = 0;  // the job whose messages' length it needs, if `waits`
  bool waits = false;

  enum class State : std::uint8_t { kMissing, kRunning, kDone, kFailed };
  State state = State::kMissing;
  std::optional<PointResult> result;
  std::string failure;

  ChildId child{};       // once it has been started
  std::size_t slot = 0;  // while it runs
  Instant begun;
};

class StudyRunner {
 public:
  StudyRunner(const Study& study, const StudyPlan& plan, const StudyOptions& options)
      : study_(study),
        plan_(plan),
        options_(options),
        limit_s_(options.limit_s.value_or(study.limit_s.value_or(kUsualLimitS))) {}

  Result<int> run() {
    if (const Result<void> done = make_folder(); !done) return done.error();
    make_jobs();
    if (const Result<void> done = take_signals(); !done) return done.error();
    say_what_is_there();
    if (const Result<void> done = run_all(); !done) return done.error();
    if (const Result<void> done = write_results(); !done) return done.error();
    return conclude();
  }

 private:
  std::string path(const Job& job, const char* ending) const {
    return fmt::format("{}/points/{}{}", options_.folder, job.name, ending);
  }

  // --- Before

  Result<void> make_folder() {
    std::error_code problem;
    std::filesystem::create_directories(options_.folder + "/points", problem);
    if (problem) return error("{}: cannot be made: {}", options_.folder + "/points", problem.message());
    const std::string path = options_.folder + "/lock";
    lock_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock_) return error("{}: cannot be written: {}", path, std::strerror(errno));
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
      return error("{}: another study is writing there; wait for its end, or name another folder",
                   options_.folder);
    return {};
  }

  void make_jobs() {
    std::map<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < study_.points.size(); ++i) {
      const Json& origin = plan_.origins[i];
      const auto [known, is_new] = by_name.emplace(name_of(origin), jobs_.size());
      job_of_.push_back(known->second);
      if (!is_new) continue;
      Job& job = jobs_.emplace_back();
      job.point = &study_.points[i];
      job.name = known->first;
      job.origin = &origin;
      job.result = load_result(path(job, ".json"), origin);
      if (job.result) job.state = Job::State::kDone;
    }
    for (Job& job : jobs_) {
      const std::optional<Json> twin = real_twin(*job.origin);
      const auto found = twin ? by_name.find(name_of(*twin)) : by_name.end();
      if (found == by_name.end()) continue;
      job.waits = true;
      job.waits_for = found->second;
    }
    found_ = count(Job::State::kDone);
    processors_ = usable_processors();
    const std::size_t places =
        options_.jobs > 0 ? options_.jobs : std::max<std::size_t>(1, processors_.size());
    slots_.resize(std::min(places, std::max<std::size_t>(1, jobs_.size() - found_)), false);
  }

  Result<void> take_signals() {
    Result<ChildProcesses> children = ChildProcesses::create({.signals = {SIGINT, SIGTERM, SIGHUP}});
    if (!children) return children.error();
    children_.emplace(std::move(*children));
    return {};
  }

  // --- Runs

  Result<void> run_all() {
    Result<void> problem;
    while (interrupted_ == 0) {
      if (problem = start_some(); !problem) break;
      if (!children_->any_alive()) break;
      children_->wait(is_terminal_ ? monotonic_now() + kRefresh : Instant::never());
      for (const int signal : children_->take_signals()) interrupted_ = signal;
      if (problem = reap(); !problem) break;
      show();
    }
    end_line();
    stop_all();
    return problem;
  }

  Result<void> start_some() {
    for (Job& job : jobs_) {
      const auto slot = std::find(slots_.begin(), slots_.end(), false);
      if (slot == slots_.end()) break;
      if (job.state != Job::State::kMissing || (job.waits && !is_over(jobs_[job.waits_for]))) continue;
      job.slot = static_cast<std::size_t>(slot - slots_.begin());
      if (const Result<void> started = start(job); !started) return started;
      *slot = true;
    }
    return {};
  }

  // Of a job that begins now.
  Instant deadline() const {
    return limit_s_ > 0 ? monotonic_now() + Duration::ns(static_cast<std::int64_t>(limit_s_ * 1e9))
                        : Instant::never();
  }

  static bool is_over(const Job& job) {
    return job.state == Job::State::kDone || job.state == Job::State::kFailed;
  }

  // What the engine would measure first by itself, where it is known already. 0: it is not.
  std::uint32_t message_bytes(const Job& job) const {
    if (!job.waits || !jobs_[job.waits_for].result) return 0;
    const OrderedJson& report = jobs_[job.waits_for].result->report;
    const OrderedJson::json_pointer mean("/messages/mean_bytes");
    if (!report.contains(mean) || !report[mean].is_number()) return 0;
    return static_cast<std::uint32_t>(report[mean].get<double>());
  }

  std::vector<std::string> command_of(const Job& job, bool to_repeat) const {
    std::vector<std::string> words = {plan_.engine, "sim"};
    if (!to_repeat) words.insert(words.end(), {"--quiet", "--report", path(job, ".report")});
    words.insert(words.end(), {"--config", path(job, ".yaml")});
    const std::vector<std::string> command = job.point->command();
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  Result<void> start(Job& job) {
    const std::string settings = fmt::format("# {}\n{}", describe(*job.point, study_.varied),
                                             settings_yaml(*job.point, message_bytes(job)));
    if (const Result<void> written = write_file(path(job, ".yaml"), settings); !written) return written;
    const std::string log = path(job, ".log");
    const Descriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!output) return error("{}: cannot be written: {}", log, std::strerror(errno));
    ProcessOptions process;
    process.path = plan_.engine;
    process.arguments = command_of(job, false);
    for (char** v = ::environ; *v != nullptr; ++v) process.environment.emplace_back(*v);
    process.output_fd = output.get();
    process.processor = processors_.empty() ? -1 : processors_[job.slot % processors_.size()];
    job.begun = monotonic_now();
    const Result<ChildId> started = children_->start(process, "", deadline());
    if (!started) return started.error();
    job.child = *started;
    job.state = Job::State::kRunning;
    return {};
  }

  Result<void> reap() {
    for (const EndedChild& ended : children_->take_ended()) {
      Job& job = *std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) {
        return j.state == Job::State::kRunning && j.child == ended.child;
      });
      slots_[job.slot] = false;
      if (const Result<void> done = finish(job, ended); !done) return done;
      tell(job);
    }
    return {};
  }

  // A failed point is not kept: the next study that wants it tries again.
  Result<void> finish(Job& job, const EndedChild& ended) {
    const std::string report = path(job, ".report");
    std::ifstream file(report);
    OrderedJson json = OrderedJson::parse(file, nullptr, false);
    std::filesystem::remove(report);
    if (ended.timed_out)
      job.failure = fmt::format(
          "was stopped: it took longer than {} s; --limit, or 'limit_s' in the study's file, gives it more",
          limit_s_);
    else if (ended.wait_status != 0)
      job.failure = describe_end(ended.wait_status);
    else if (!json.is_object())
      job.failure = "wrote no report";
    if (!job.failure.empty()) {
      job.state = Job::State::kFailed;
      return {};
    }
    job.state = Job::State::kDone;
    job.result = PointResult{(monotonic_now() - job.begun).s(), std::move(json)};
    return store_result(path(job, ".json"), *job.origin, *job.result);
  }

  // Their work is lost; what is finished is not.
  void stop_all() {
    children_->stop_all();
    for (Job& job : jobs_) {
      if (job.state != Job::State::kRunning) continue;
      job.state = Job::State::kMissing;
      std::error_code ignored;
      std::filesystem::remove(path(job, ".report"), ignored);
    }
  }

  // --- What is said meanwhile

  std::size_t count(Job::State state) const {
    return static_cast<std::size_t>(
        std::count_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.state == state; }));
  }

  void say_what_is_there() const {
    std::string text = fmt::format("braid study: {} points", study_.points.size());
    if (jobs_.size() < study_.points.size()) text += fmt::format(", {} of them different", jobs_.size());
    if (found_ > 0) text += fmt::format("; {} are finished already", found_);
    if (found_ < jobs_.size()) text += fmt::format("; {} at a time", slots_.size());
    std::fprintf(stderr, "%s\n", text.c_str());
  }

  // From what points of the same program took, or else of any.
  std::optional<double> seconds_left() const {
    std::map<std::string, std::pair<double, int>> took;  // "": any
    for (const Job& job : jobs_) {
      if (!job.result) continue;
      for (const std::string& key : {job.point->application, std::string()}) {
        took[key].first += job.result->seconds;
        ++took[key].second;
      }
    }
    if (took.empty()) return std::nullopt;
    double work = 0, longest = 0;
    for (const Job& job : jobs_) {
      if (is_over(job)) continue;
      const auto own = took.find(job.point->application);
      const auto& [sum, number] = own == took.end() ? took[""] : own->second;
      const double all = sum / number;
      const double rest =
          job.state == Job::State::kRunning ? std::max(0.0, all - (monotonic_now() - job.begun).s()) : all;
      work += rest;
      longest = std::max(longest, rest);
    }
    return std::max(longest, work / static_cast<double>(slots_.size()));
  }

  std::string progress() const {
    const std::size_t failed = count(Job::State::kFailed);
    std::string text = fmt::format("{} of {}", count(Job::State::kDone) + failed, jobs_.size());
    if (failed > 0) text += fmt::format(", {} failed", failed);
    if (const std::optional<double> left = seconds_left();
        left && count(Job::State::kMissing) + count(Job::State::kRunning) > 0)
      text += fmt::format(", about {} left", describe_time(*left));
    return text;
  }

  void tell(const Job& job) const {
    if (is_terminal_) return;
    const std::string end =
        job.state == Job::State::kFailed ? job.failure : fmt::format("{:.1f} s", job.result->seconds);
    std::fprintf(stderr, "braid study: %s: %s (%s)\n", describe(*job.point, study_.varied).c_str(),
                 end.c_str(), progress().c_str());
  }

  void show() {
    if (!is_terminal_) return;
    std::fprintf(stderr, "\r\033[Kbraid study: %s", progress().c_str());
    line_is_open_ = true;
  }

  void end_line() {
    if (line_is_open_) std::fputc('\n', stderr);
    line_is_open_ = false;
  }

  // --- After

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
    std::vector<Row> rows;
    OrderedJson points = OrderedJson::array(), failed = OrderedJson::array();
    std::size_t missing = 0;
    for (std::size_t i = 0; i < study_.points.size(); ++i) {
      const StudyPoint& point = study_.points[i];
      const Job& job = jobs_[job_of_[i]];
      OrderedJson json = described(point, job);
      if (job.result) {
        rows.push_back({&point, job.name, *job.result});
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
    all["varied"] = study_.varied;
    all["points"] = std::move(points);
    all["failed"] = std::move(failed);
    all["missing"] = missing;
    if (const Result<void> done = write_file(options_.folder + "/study.json", all.dump(1) + "\n"); !done)
      return done;
    if (const Result<void> done = write_file(options_.folder + "/queues.csv", queues_csv(rows)); !done)
      return done;
    return write_file(options_.folder + "/points.csv", points_csv(study_.varied, rows));
  }

  int conclude() const {
    const std::size_t done = count(Job::State::kDone), failed = count(Job::State::kFailed);
    if (interrupted_ != 0)
      std::fprintf(stderr,
                   "braid study: interrupted; %zu of %zu are finished, and the same command does the rest\n",
                   done, jobs_.size());
    if (failed > 0) std::fprintf(stderr, "braid study: %zu of %zu failed:\n", failed, jobs_.size());
    for (const Job& job : jobs_) {
      if (job.state != Job::State::kFailed) continue;
      std::fprintf(stderr, "  %s: %s; what it said is in %s\n    %s\n",
                   describe(*job.point, study_.varied).c_str(), job.failure.c_str(),
                   path(job, ".log").c_str(), repeat(job).c_str());
    }
    if (interrupted_ == 0)
      std::fprintf(stderr, "braid study: %zu points in %s/points.csv\n", rows_written(),
                   options_.folder.c_str());
    return interrupted_ != 0 ? 128 + interrupted_ : failed > 0 ? kFailedPointsStatus : 0;
  }

  std::size_t rows_written() const {
    return static_cast<std::size_t>(std::count_if(job_of_.begin(), job_of_.end(), [&](std::size_t job) {
      return jobs_[job].state == Job::State::kDone;
    }));
  }

  const Study& study_;
  const StudyPlan& plan_;
  const StudyOptions& options_;
  const double limit_s_;  // 0: there is none
  const bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  Descriptor lock_;
  std::optional<ChildProcesses> children_;  // from take_signals() on
  std::vector<int> processors_;
  std::vector<Job> jobs_;
  std::vector<std::size_t> job_of_;  // by point
  std::vector<bool> slots_;          // whether a job has it
  std::size_t found_ = 0;
  int interrupted_ = 0;
  bool line_is_open_ = false;
};

}  // namespace

Result<StudyPlan> plan_study(const Study& study) {
  const Result<std::string> engine = find_study_engine();
  if (!engine) return engine.error();
  StudyPlan plan{*engine, {}};
  StudyPrograms programs(plan.engine, models_folder());
  for (const StudyPoint& point : study.points) {
    Result<Json> origin = programs.origin(point);
    if (!origin) return origin.error();
    plan.origins.push_back(std::move(*origin));
  }
  return plan;
}

Result<int> carry_out(const Study& study, const StudyPlan& plan, const StudyOptions& options) {
  return StudyRunner(study, plan, options).run();
}

}  // namespace braid::cli
