#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "tools/braid/ask.h"
#include "tools/braid/find_program.h"
#include "tools/braid/number_in.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/study/study_results.h"
#include "tools/braid/study/task_launcher.h"

namespace braid::cli {
namespace {

constexpr Duration kFirstInterval = 250_ms, kLongestInterval = 10_s;
// Slurm gives processes 30 s to end unless its KillWait says otherwise.
constexpr Duration kMaxCancelling = 60_s;

// There from before the array is submitted until it has ended.
std::string marker_in(const std::string& tasks) {
  return tasks + "/slurm";
}

// By this name a later command finds the array, even if this one dies before it knows its number.
std::string array_name(const std::string& tasks) {
  return "braid-" + name_of(nlohmann::json(tasks));
}

// What has become of a task in each of Slurm's states in which it is over (squeue(1), JOB STATE CODES).
const std::map<std::string, std::string>& ends() {
  static const std::map<std::string, std::string> kEnds = {
      {"BOOT_FAIL", "was not run: Slurm could not start its node"},
      {"CANCELLED", "was cancelled"},
      {"COMPLETED", ""},
      {"DEADLINE", "was killed at the deadline of its job"},
      {"FAILED", ""},  // its own status: it says what it was
      {"NODE_FAIL", "was lost: Slurm says that its node has failed"},
      {"OUT_OF_MEMORY",
       "was killed: it used more memory than Slurm gave it; --sbatch --mem=... gives it more"},
      {"PREEMPTED", "was killed for a job that goes before it"},
      {"REVOKED", "was moved to another cluster of Slurm's"},
      {"TIMEOUT", "was killed at Slurm's time limit; --sbatch --time=... gives it more"}};
  return kEnds;
}

// "KEY   = value" of scontrol's page.
std::string value_of(const std::string& page, const std::string& key) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find('=');
    if (at != std::string::npos && line.substr(0, line.find_first_of(" =")) == key)
      return words_of(line.substr(at + 1)).empty() ? "" : words_of(line.substr(at + 1)).front();
  }
  return "";
}

// In a file name of sbatch's a % begins a pattern.
std::string without_patterns(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

class SlurmTasks final : public TaskLauncher {
 public:
  SlurmTasks(unsigned jobs, std::vector<std::string> options) : jobs_(jobs), options_(std::move(options)) {}
  const char* name() const override { return "slurm"; }

  Result<std::size_t> most_tasks() override {
    for (const char* const program : {"sbatch", "squeue", "scancel", "scontrol"}) {
      if (const Result<std::string> found = find_in_path(program, variable("PATH")); !found)
        return error("--on slurm: {}; this must be a host from which jobs are submitted", found.error().text);
    }
    const Result<std::string> page = ask("scontrol", {"show", "config"});
    if (!page) return error("--on slurm: Slurm's controller does not answer: {}", page.error().text);
    std::size_t most = number_in<std::size_t>(value_of(*page, "MaxArraySize")).value_or(0);
    const std::string parameters = value_of(*page, "SchedulerParameters"), key = "max_array_tasks=";
    if (const std::size_t at = parameters.find(key); at != std::string::npos) {
      const std::size_t from = at + key.size();
      const std::size_t end = parameters.find(',', from);
      most = std::min(most, number_in<std::size_t>(parameters.substr(from, end - from)).value_or(most));
    }
    if (most == 0)
      return error("--on slurm: this cluster has no job arrays (MaxArraySize of its slurm.conf)");
    return most;
  }

  std::size_t at_a_time(std::size_t tasks) const override {
    return jobs_ > 0 ? std::min<std::size_t>(jobs_, tasks) : tasks;
  }

  Result<void> start(const TaskFolder& folder, std::size_t tasks, ChildProcesses&) override {
    folder_ = folder.path;
    const std::string script = folder.file("job.sh");
    const std::string text = "#!/bin/sh\n" + folder.shell_line("\"$SLURM_ARRAY_TASK_ID\"") + "\n";
    for (const auto& [path, contents] :
         {std::pair{script, text}, {marker_in(folder.path), array_name(folder.path) + "\n"}})
      if (const Result<void> written = write_file(path, contents); !written) return written;
    // The last of equal options counts, so ours do.
    std::vector<std::string> words = options_;
    words.insert(
        words.end(),
        {"--parsable", fmt::format("--array=0-{}{}", tasks - 1, jobs_ > 0 ? fmt::format("%{}", jobs_) : ""),
         "--job-name=" + array_name(folder.path), "--chdir=" + folder.home,
         "--output=" + without_patterns(folder.path) + "/%a.log", "--open-mode=append", script});
    const Result<std::string> submitted = ask("sbatch", words);
    if (!submitted) {
      forget();
      return error("--on slurm: the tasks are not accepted: {}", submitted.error().text);
    }
    // "12" or "12;cluster".
    array_ = submitted->substr(0, submitted->find_first_of(";\n"));
    for (std::size_t task = 0; task < tasks; ++task) left_.insert(task);
    std::fprintf(stderr, "braid study: job array %s of %zu tasks\n", array_.c_str(), tasks);
    return {};
  }

  std::vector<TaskEnd> take_ended(ChildProcesses&, bool soon) override {
    const Instant now = monotonic_now();
    if (soon && !soon_) interval_ = kFirstInterval;
    if (now < (soon && !soon_ ? now : next_)) return {};
    soon_ = soon;
    std::vector<TaskEnd> ended = look();
    interval_ =
        ended.empty() ? std::min(Duration::ns(interval_.ns() * 3 / 2), kLongestInterval) : kFirstInterval;
    next_ = monotonic_now() + interval_;
    if (left_.empty()) forget();
    return ended;
  }

  void cancel(ChildProcesses& children) override {
    if (left_.empty()) return;
    if (const Result<std::string> done = ask("scancel", {array_}); !done)
      std::fprintf(stderr, "braid study: %s\n", done.error().text.c_str());
    const Instant until = monotonic_now() + kMaxCancelling;
    while (!left_.empty() && monotonic_now() < until) {
      look();
      if (left_.empty()) break;
      children.wait(monotonic_now() + kFirstInterval);
      if (!children.take_signals().empty()) break;
    }
    if (left_.empty())
      forget();
    else
      std::fprintf(stderr, "braid study: Slurm has not ended all tasks of job %s yet\n", array_.c_str());
  }

 private:
  void forget() const {
    std::error_code ignored;
    std::filesystem::remove(marker_in(folder_), ignored);
  }

  // Asks Slurm. It forgets jobs some minutes after their end (MinJobAge), and no accounting need be there.
  std::vector<TaskEnd> look() {
    const Result<std::string> page =
        ask("squeue", {"--noheader", "--array", "--states=all", "--jobs=" + array_, "--format=%K|%T|%N|%r"});
    if (!page && page.error().text.find("Invalid job id") == std::string::npos) {
      if (!is_silent_) std::fprintf(stderr, "braid study: %s; asking again\n", page.error().text.c_str());
      is_silent_ = true;
      return {};
    }
    is_silent_ = false;
    std::set<std::size_t> known;
    std::vector<TaskEnd> ended;
    std::string why_waiting;
    bool runs = false;
    std::istringstream lines(page ? *page : "");
    for (std::string line; std::getline(lines, line);) {
      std::array<std::string, 4> cells;
      std::istringstream cut(line);
      for (std::string& cell : cells) std::getline(cut, cell, '|');
      const auto& [number, state, node, reason] = cells;
      const std::optional<std::size_t> task = number_in<std::size_t>(number);
      if (!task) continue;
      known.insert(*task);
      runs = runs || state == "RUNNING";
      if (state == "PENDING") why_waiting = reason;
      const auto end = ends().find(state);
      if (end != ends().end() && left_.erase(*task) > 0) ended.push_back({*task, node, end->second});
    }
    const std::set<std::size_t> still = left_;
    for (const std::size_t task : still) {
      if (known.contains(task)) continue;
      left_.erase(task);
      ended.push_back({task, "", "is forgotten by Slurm"});
    }
    tell_waiting(runs ? "" : why_waiting);
    return ended;
  }

  // Once for each reason, and only if it may be of interest.
  void tell_waiting(const std::string& reason) {
    if (reason.empty() || reason == "None" || reason == "Priority" || reason == told_) return;
    told_ = reason;
    std::fprintf(stderr, "braid study: the tasks of job %s wait; Slurm's reason: %s\n", array_.c_str(),
                 reason.c_str());
  }

  const unsigned jobs_;
  const std::vector<std::string> options_;
  std::string folder_;
  std::string array_;           // the job's number
  std::set<std::size_t> left_;  // tasks that have not ended
  Duration interval_ = kFirstInterval;
  Instant next_;
  bool soon_ = false, is_silent_ = false;
  std::string told_;
};

}  // namespace

std::unique_ptr<TaskLauncher> slurm_tasks(unsigned jobs, std::vector<std::string> options) {
  return std::make_unique<SlurmTasks>(jobs, std::move(options));
}

Result<void> end_former_tasks(const std::string& tasks) {
  std::error_code problem;
  if (!std::filesystem::exists(marker_in(tasks), problem)) return {};
  const std::vector<std::string> which = {fmt::format("--user={}", ::getuid()),
                                          "--name=" + array_name(tasks)};
  const auto failed = [&](const Error& why) {
    return error(
        "tasks of an earlier command may still run in this folder, and cannot be cancelled: {}; when they have ended, remove {}",
        why.text, marker_in(tasks));
  };
  const auto left = [&]() -> Result<std::string> {
    std::vector<std::string> words = which;
    words.insert(words.end(), {"--noheader", "--format=%A"});
    return ask("squeue", words);
  };
  Result<std::string> page = left();
  if (!page) return failed(page.error());
  if (!page->empty()) {
    std::fprintf(stderr, "braid study: cancelling the tasks of an earlier command in this folder\n");
    if (const Result<std::string> done = ask("scancel", which); !done) return failed(done.error());
  }
  const Instant until = monotonic_now() + kMaxCancelling;
  while (!page->empty()) {
    if (monotonic_now() > until) return failed(Error{"Slurm has not ended them within a minute"});
    ::usleep(250'000);
    page = left();
    if (!page) return failed(page.error());
  }
  std::filesystem::remove(marker_in(tasks), problem);
  return {};
}

}  // namespace braid::cli
