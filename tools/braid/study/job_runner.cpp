#include "tools/braid/study/job_runner.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "tools/braid/ask.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/study/study_results.h"

namespace braid::cli {

using OrderedJson = nlohmann::ordered_json;

namespace {

// How long the former process of a job may take to end.
constexpr Duration kMaxWait = 3_s;

// Empty. It is locked as long as a process of the job's has it open, on whatever host that shares the folder: a task may live on when the
// command that had it started is killed. Where the file system has no locks, nothing is kept from anyone.
Result<Descriptor> open_log(const std::string& path) {
  Descriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!log) return error("{}: cannot be written: {}", path, cause_and_cure(errno));
  const Instant until = monotonic_now() + kMaxWait;
  while (::flock(log.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (monotonic_now() > until)
      return error("{}: a process of an earlier study still runs this point; wait for its end, or end it",
                   path);
    ::usleep(50'000);
  }
  if (::ftruncate(log.get(), 0) != 0) return error("{}: cannot be written: {}", path, cause_and_cure(errno));
  return log;
}

}  // namespace

JobRunner::JobRunner(const Study& runs, Jobs& jobs, const StudyFolder& folder, std::string engine,
                     const char* noun, double limit_s)
    : runs_(runs),
      jobs_(jobs),
      folder_(folder),
      engine_(std::move(engine)),
      limit_s_(limit_s),
      progress_(runs, jobs, noun) {}

Result<int> JobRunner::run(ChildProcesses& children) {
  progress_.tell_beginning(monotonic_now());
  Result<void> problem;
  int interrupted = 0;
  while (interrupted == 0) {
    if (problem = start_some(children); !problem || running_.empty()) break;
    children.wait(progress_.next_deadline(monotonic_now()));
    for (const int signal : children.take_signals()) interrupted = signal;
    if (problem = take_ended(children); !problem) break;
    progress_.show(monotonic_now());
  }
  progress_.end_line();
  children.stop_all();
  give_up_running();
  if (!problem) return problem.error();
  return interrupted;
}

Result<void> JobRunner::start_some(ChildProcesses& children) {
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

std::vector<std::string> JobRunner::command_of(const Job& job, bool to_repeat) const {
  std::vector<std::string> words = {engine_, subcommand()};
  if (!to_repeat) words.insert(words.end(), {"--quiet", "--report", folder_.file_of(job.name, ".report")});
  words.insert(words.end(), {"--config", folder_.file_of(job.name, ".yaml")});
  const std::vector<std::string> command = job.point->command();
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string JobRunner::repeat(const Job& job) const {
  std::string line;
  for (const std::string& word : command_of(job, true)) line += (line.empty() ? "" : " ") + for_shell(word);
  return line;
}

Result<ChildId> JobRunner::start(Jobs::Id id, ChildProcesses& children) {
  const Job& job = jobs_[id];
  const std::string settings = fmt::format("# {}\n{}", describe(*job.point, runs_.varied), settings_of(id));
  if (const Result<void> written = write_file(folder_.file_of(job.name, ".yaml"), settings); !written)
    return written.error();
  const Result<Descriptor> output = open_log(folder_.file_of(job.name, ".log"));
  if (!output) return output.error();
  ProcessOptions process;
  process.path = engine_;
  process.arguments = command_of(job, false);
  process.environment = own_environment();
  process.output_fd = output->get();
  process.processor = processor_of(job);
  const Instant deadline =
      limit_s_ > 0 ? job.begun + Duration::ns(static_cast<std::int64_t>(limit_s_ * 1e9)) : Instant::never();
  return children.start(process, "", deadline);
}

Result<void> JobRunner::take_ended(ChildProcesses& children) {
  for (const EndedChild& ended : children.take_ended()) {
    const auto id = running_.extract(ended.child).mapped();
    if (const Result<void> done = finish(id, ended); !done) return done;
    progress_.tell_end_of(jobs_[id], monotonic_now());
  }
  return {};
}

// A failed job is not stored: the next study that has it tries again.
Result<void> JobRunner::finish(Jobs::Id id, const EndedChild& ended) {
  const Job& job = jobs_[id];
  const std::string report = folder_.file_of(job.name, ".report");
  std::ifstream file(report);
  OrderedJson json = OrderedJson::parse(file, nullptr, false);
  std::filesystem::remove(report);
  const std::string why = json.is_object() ? examine(json, folder_.file_of(job.name, ".log")) : "";
  if (ended.timed_out) {
    jobs_.fail(id, fmt::format("was stopped: it took longer than {} s; --limit, or 'limit_s' in the study's "
                               "file, gives it more",
                               limit_s_));
  } else if (!why.empty()) {
    jobs_.fail(id, why);
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

// Their work is lost; finished ones are stored.
void JobRunner::give_up_running() {
  for (const auto& [child, id] : running_) {
    jobs_.give_up(id);
    std::error_code ignored;
    std::filesystem::remove(folder_.file_of(jobs_[id].name, ".report"), ignored);
  }
  running_.clear();
}

void JobRunner::tell_failures(int interrupted) const {
  const std::size_t done = jobs_.count(Job::State::kDone), failed = jobs_.count(Job::State::kFailed);
  if (interrupted != 0)
    std::fprintf(stderr,
                 "braid study: interrupted; %zu of %zu%s are finished, and the same command runs the rest\n",
                 done, jobs_.size(), progress_.suffix().c_str());
  if (failed > 0)
    std::fprintf(stderr, "braid study: %zu of %zu%s failed:\n", failed, jobs_.size(),
                 progress_.suffix().c_str());
  for (const Job& job : jobs_) {
    if (job.state != Job::State::kFailed) continue;
    const std::string log = folder_.file_of(job.name, ".log");
    std::fprintf(stderr, "  %s: %s; its output is in %s\n%s    %s\n",
                 describe(*job.point, runs_.varied).c_str(), job.failure.c_str(), log.c_str(),
                 last_lines(log, "    | ").c_str(), repeat(job).c_str());
  }
}

}  // namespace braid::cli
