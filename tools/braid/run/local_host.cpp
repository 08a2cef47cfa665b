#include "tools/braid/run/local_host.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <optional>

namespace braid::cli {

Result<void> LocalHost::start_daemons() {
  if (Result<void> done = launcher_.make_wires(); !done) return done;
  for (const unsigned cluster : launcher_.clusters()) {
    const Result<ChildId> child = launcher_.start_daemon(children_, cluster);
    if (!child) return error("cluster {}: {}", cluster, child.error().text);
    adopt({Role::kDaemon, cluster}, *child);
  }
  launcher_.daemons_started();
  return {};
}

Result<void> LocalHost::start_application(unsigned cluster, int input, const std::string& debugger) {
  const Result<ChildId> child = launcher_.start_application(children_, cluster, input, debugger);
  if (!child) return error("cluster {}: {}", cluster, child.error().text);
  adopt({Role::kApplication, cluster}, *child);
  return {};
}

void LocalHost::adopt(const RunProcess& process, ChildId child) {
  processes_.emplace(process, child);
  events_.push_back(ProcessStarted{process, children_.pid(child)});
}

const ChildId* LocalHost::child_of(const RunProcess& process) const {
  const auto found = processes_.find(process);
  return found == processes_.end() ? nullptr : &found->second;
}

void LocalHost::signal(const RunProcess& process, int number, SignalTo to) {
  const ChildId* const child = child_of(process);
  if (child == nullptr) return;
  if (to == SignalTo::kGroup)
    children_.send_to_group(*child, number);
  else
    children_.send(*child, number);
}

// Not to its group: only the runtime in this process handles the signal. A program can have given its handler up.
void LocalHost::ask_for_waits(unsigned cluster) {
  const RunProcess process{Role::kApplication, cluster};
  const ChildId* const child = child_of(process);
  if (child != nullptr && children_.is_alive(*child) && !children_.is_stopped(*child) &&
      children_.handles(*child, SIGQUIT))
    children_.send(*child, SIGQUIT);
}

bool LocalHost::take_end(const EndedChild& ended) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& p) { return p.second == ended.child; });
  if (found == processes_.end()) return false;
  const RunProcess& process = found->first;
  RecordedEnd end;
  if (process.role == Role::kApplication) end = launcher_.end_of(process.cluster);
  if (WIFSIGNALED(ended.wait_status) && WTERMSIG(ended.wait_status) == SIGKILL && end.text.empty())
    end.text = text_of_kill();
  events_.push_back(ProcessEnded{process, ended.wait_status, std::move(end)});
  return true;
}

std::string LocalHost::text_of_kill() {
  const std::uint64_t kills = own_memory_kills();
  if (kills <= memory_kills_) return {};
  memory_kills_ = kills;
  const std::optional<MemoryLimit> limit = own_memory_limit();
  return fmt::format(
      "the kernel killed it because there was no memory left{}; give the run more memory, or take fewer clusters on this host or "
      "smaller data",
      limit ? fmt::format(" of the {} MiB that the cgroup permits", limit->limit_bytes >> 20) : "");
}

bool LocalHost::waits(unsigned cluster) const {
  return launcher_.waits(cluster) || is_stopped({Role::kApplication, cluster});
}

bool LocalHost::is_stopped(const RunProcess& process) const {
  const ChildId* const child = child_of(process);
  return child != nullptr && children_.is_stopped(*child);
}

}  // namespace braid::cli
