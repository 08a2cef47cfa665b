#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/processors.h"
#include "base/system_error.h"
#include "tools/braid/ask.h"
#include "tools/braid/find_program.h"
#include "tools/braid/number_in.h"
#include "tools/braid/run/launchers/host_launcher.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/study/study_folder.h"
#include "tools/braid/study/study_results.h"
#include "tools/braid/study/task_launcher.h"

namespace braid::cli {
namespace {

// For a host to answer, and for tasks to end.
constexpr Duration kMaxAnswer = 30_s, kMaxCancelling = 10_s;

Result<Descriptor> open_for(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return error("{}: cannot be written: {}", path, cause_and_cure(errno));
  return file;
}

class ParallelTasks final : public TaskLauncher {
 public:
  ParallelTasks(unsigned jobs, std::vector<Host> hosts, std::vector<std::string> ssh)
      : jobs_(jobs), hosts_(std::move(hosts)), ssh_(std::move(ssh)) {}
  const char* name() const override { return "parallel"; }

  Result<std::size_t> most_tasks() override {
    const Result<std::string> version = ask("parallel", {"--plain", "--will-cite", "--version"});
    if (!version || !version->starts_with("GNU parallel"))
      return error(
          "--on parallel: {}; install GNU parallel (Debian's package parallel)",
          version ? "the program parallel of PATH is another one of that name" : version.error().text);
    return ~std::size_t{0};
  }

  std::size_t at_a_time(std::size_t tasks) const override {
    std::size_t all = hosts_.empty() ? slots_here() : 0;
    for (const Host& host : hosts_) all += jobs_ > 0 ? jobs_ : host.slots;
    return std::min(all, tasks);
  }

  Result<void> start(const TaskFolder& folder, std::size_t tasks, ChildProcesses& children) override {
    if ((folder.path + folder.braid + folder.home).find('{') != std::string::npos)
      return error("--on parallel: in {} a '{{' means something to GNU parallel; use a path without",
                   folder.path);
    if (const Result<void> answered = ask_hosts(folder, children); !answered) return answered;
    folder_ = folder.path;
    std::string list, logins;
    for (std::size_t task = 0; task < tasks; ++task) list += fmt::format("{}\n", task);
    std::map<std::string, unsigned> slots;  // by login; ":" is this host
    for (const Host& host : hosts_) slots[is_this_machine(host) ? ":" : host.name] += host.slots;
    for (const auto& [login, number] : slots) logins += fmt::format("{}/{}\n", number, login);
    for (const auto& [name, text] : {std::pair{"list", list}, {"logins", logins}})
      if (const Result<void> written = write_file(folder.file(name), text); !written) return written;
    const Result<Descriptor> output = open_for(folder.file("parallel.log"));
    if (!output) return output.error();
    const Result<std::string> program = find_in_path("parallel", variable("PATH"));
    if (!program) return program.error();
    ProcessOptions process;
    process.path = *program;
    process.arguments = {"parallel",   "--plain",          "--will-cite", "--joblog", folder.file("joblog"),
                         "--arg-file", folder.file("list")};
    if (hosts_.empty() || jobs_ > 0) {
      process.arguments.insert(process.arguments.end(), {"--jobs", fmt::format("{}", slots_here())});
    }
    if (!hosts_.empty()) {
      std::string ssh;
      for (const std::string& word : ssh_) ssh += word + " ";
      process.arguments.insert(process.arguments.end(), {"--sshloginfile", folder.file("logins"), "--ssh",
                                                         ssh + "-T -o BatchMode=yes"});
    }
    // The task's own lines go into its log. What it says before that is an error.
    const std::string line =
        fmt::format("exec >>{} 2>&1; {}", for_shell(folder.path + "/") + "{}.log", folder.shell_line("{}"));
    process.arguments.push_back("exec /bin/sh -c " + for_shell(line));
    process.environment = own_environment();
    // It keeps files there, and reads nothing of the user's; lines here are of sh.
    process.environment.push_back("PARALLEL_HOME=" + folder.file("parallel"));
    process.environment.emplace_back("PARALLEL_SHELL=/bin/sh");
    process.output_fd = output->get();
    const Result<ChildId> started = children.start(process);
    if (!started) return started.error();
    child_ = *started;
    for (std::size_t task = 0; task < tasks; ++task) left_.insert(task);
    return {};
  }

  std::vector<TaskEnd> take_ended(ChildProcesses& children, bool) override {
    const std::vector<EndedChild> children_ended = children.take_ended();
    std::vector<TaskEnd> ended = read_joblog();
    for (const EndedChild& child : children_ended) {
      if (child.child != child_) continue;
      is_over_ = true;
      // What it has not begun, or not told.
      for (const std::size_t task : left_)
        ended.push_back({task, "", "has not ended: GNU parallel " + describe_end(child.wait_status), said()});
      left_.clear();
    }
    return ended;
  }

  // At the second SIGTERM it ends the tasks, here and on other hosts.
  void cancel(ChildProcesses& children) override {
    const Instant until = monotonic_now() + kMaxCancelling;
    for (int i = 0; !is_over_ && monotonic_now() < until; ++i) {
      if (i < 2) children.send(child_, SIGTERM);
      children.wait(monotonic_now() + 100_ms);
      take_ended(children, true);
      if (!children.take_signals().empty()) break;
    }
  }

 private:
  unsigned slots_here() const {
    return jobs_ > 0 ? jobs_ : static_cast<unsigned>(processors_of_this_thread().size());
  }

  // Whether each host can be reached, sees the folder, and has this braid: a task without points runs there.
  Result<void> ask_hosts(const TaskFolder& folder, ChildProcesses& children) {
    std::map<ChildId, std::string> asked;
    const std::unique_ptr<HostLauncher> launcher = ssh_launcher(ssh_);
    for (const Host& host : hosts_) {
      if (is_this_machine(host)) continue;
      const std::vector<std::string> words =
          launcher->command(host, {"/bin/sh", "-c", folder.shell_line("check")});
      const Result<std::string> program = find_in_path(words.front(), variable("PATH"));
      if (!program) return error("--on parallel: {}", program.error().text);
      const Result<Descriptor> output = open_for(answer_of(folder, host.name));
      if (!output) return output.error();
      ProcessOptions process;
      process.path = *program;
      process.arguments = words;
      process.environment = own_environment();
      process.output_fd = output->get();
      const Result<ChildId> started = children.start(process, "", monotonic_now() + kMaxAnswer);
      if (!started) return started.error();
      asked[*started] = host.name;
    }
    std::string problems;
    while (!asked.empty()) {
      children.wait(Instant::never());
      if (const std::vector<int> signals = children.take_signals(); !signals.empty())
        return error("interrupted while hosts were asked");
      for (const EndedChild& end : children.take_ended()) {
        const std::string host = asked.extract(end.child).mapped();
        if (end.wait_status == 0) continue;
        problems += fmt::format("\n  host {}: {}\n{}", host,
                                end.timed_out ? fmt::format("did not answer within {} s", kMaxAnswer.s())
                                              : ssh_.front() + " " + describe_end(end.wait_status),
                                last_lines(answer_of(folder, host), "    | "));
      }
    }
    if (!problems.empty()) return error("--on parallel: not every host can run tasks:{}", problems);
    return {};
  }

  static std::string answer_of(const TaskFolder& folder, const std::string& host) {
    return folder.file("host-" + host + ".log");
  }

  // Lines of "Seq Host Starttime JobRuntime Send Receive Exitval Signal Command", separated by tabs.
  std::vector<TaskEnd> read_joblog() {
    std::vector<TaskEnd> ended;
    std::ifstream file(folder_ + "/joblog");
    for (std::string line; std::getline(file, line);) {
      std::array<std::string, 9> cells;
      std::istringstream cut(line);
      for (std::string& cell : cells) std::getline(cut, cell, '\t');
      const std::optional<std::size_t> number = number_in<std::size_t>(cells[0]);
      if (!number || cells[8].empty() || left_.erase(*number - 1) == 0) continue;
      const int status = number_in<int>(cells[6]).value_or(0), signal = number_in<int>(cells[7]).value_or(0);
      ended.push_back({*number - 1, cells[1] == ":" ? "" : cells[1], problem_of(status, signal), said()});
    }
    return ended;
  }

  // 1: points of it failed, which its log tells.
  std::string problem_of(int status, int signal) const {
    if (signal != 0) return describe_end(signal);
    if (status == 0 || status == 1) return "";
    return fmt::format("exited with status {}", status);
  }

  std::string said() const { return last_lines(folder_ + "/parallel.log", "    | "); }

  const unsigned jobs_;
  const std::vector<Host> hosts_;
  const std::vector<std::string> ssh_;
  std::string folder_;
  ChildId child_{};
  bool is_over_ = false;
  std::set<std::size_t> left_;  // tasks that have not ended
};

}  // namespace

std::unique_ptr<TaskLauncher> parallel_tasks(unsigned jobs, std::vector<Host> hosts,
                                             std::vector<std::string> ssh) {
  return std::make_unique<ParallelTasks>(jobs, std::move(hosts), std::move(ssh));
}

}  // namespace braid::cli
