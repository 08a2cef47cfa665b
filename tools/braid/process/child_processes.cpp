#include "tools/braid/process/child_processes.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/process_start.h"

namespace braid::cli {
namespace {

// For poll(): rounded up, so that the deadline has passed when it returns; -1: none.
int milliseconds_until(Instant deadline) {
  if (deadline == Instant::never()) return -1;
  const double ms = std::max(0.0, (deadline - monotonic_now()).ms());
  return static_cast<int>(std::min(ms, 1e6)) + 1;
}

}  // namespace

Result<ChildProcesses> ChildProcesses::create(const Options& options) {
  if (!occupy_standard_descriptors()) return error("cannot open /dev/null: {}", std::strerror(errno));
  Result<Signals> signals = Signals::take_over(options.signals);
  if (!signals) return signals.error();
  // After the signals are blocked, so that the keeper inherits that and control-C does not end it.
  Result<Keeper> keeper = Keeper::start();
  if (!keeper) return keeper.error();
  return ChildProcesses(std::move(*keeper), std::move(*signals), options);
}

Result<ChildId> ChildProcesses::start(const ProcessOptions& options, const std::string& prefix,
                                      Instant deadline) {
  ProcessOptions placed = options;
  if (options.contained) placed.container = keeper_.container();
  const bool is_contained = placed.container.pidfd >= 0;
  Result<Process> process = start_process(placed);
  if (!process) return process.error();
  if (!is_contained) keeper_.announce(process->pid);
  Child child{.pid = process->pid, .deadline = deadline};
  if (process->out || process->err) child.source = output_.add(*process, prefix);
  children_.push_back(child);
  return ChildId{children_.size() - 1};
}

void ChildProcesses::wait(Instant until, std::span<pollfd> also) {
  std::vector<pollfd> fds(also.begin(), also.end());
  fds.push_back({signals_.fd(), POLLIN, 0});
  output_.watch(fds);
  ::poll(fds.data(), fds.size(), milliseconds_until(earlier(until, next_deadline())));
  std::copy_n(fds.begin(), also.size(), also.begin());
  output_.read_some();
  kill_late();
}

Instant ChildProcesses::next_deadline() const {
  Instant first = Instant::never();
  for (const Child& child : children_) {
    if (child.alive && !child.timed_out) first = earlier(first, child.deadline);
  }
  return first;
}

void ChildProcesses::kill_late() {
  const Instant now = monotonic_now();
  for (Child& child : children_) {
    if (!child.alive || child.timed_out || now < child.deadline) continue;
    child.timed_out = true;
    ::kill(-child.pid, SIGKILL);
  }
}

std::vector<EndedChild> ChildProcesses::take_ended() {
  std::vector<EndedChild> ended;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    if (!child.alive) continue;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
      continue;
    const int status = reap(child);
    if (child.source != kNoSource) output_.read_some(child.source);
    output_.read_unlabelled();
    // It may have ended by itself before its deadline.
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    ended.push_back({ChildId{i}, status, child.timed_out && killed});
  }
  return ended;
}

// While the head is a zombie, the group's number cannot be reused: so the rest can be killed safely.
int ChildProcesses::reap(Child& child) {
  ::kill(-child.pid, SIGKILL);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  keeper_.withdraw(child.pid);
  child.alive = false;
  return status;
}

bool ChildProcesses::any_alive() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.alive; });
}

bool ChildProcesses::is_stopped(ChildId child) const {
  siginfo_t info{};
  return is_alive(child) &&
         ::waitid(P_PID, static_cast<id_t>(pid(child)), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid(child);
}

bool ChildProcesses::handles(ChildId child, int signal) const {
  std::ifstream status(fmt::format("/proc/{}/status", pid(child)));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

void ChildProcesses::send(ChildId child, int signal) const {
  if (is_alive(child)) ::kill(pid(child), signal);
}

void ChildProcesses::send_to_group(ChildId child, int signal) const {
  if (is_alive(child)) ::kill(-pid(child), signal);
}

void ChildProcesses::stop_all() {
  for (const Child& child : children_) {
    if (child.alive) ::kill(-child.pid, SIGKILL);
  }
  for (Child& child : children_) {
    if (child.alive) reap(child);
  }
}

}  // namespace braid::cli
