#include "tools/braid/run/tree/host_tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "tools/braid/run/tree/child_command.h"

namespace braid::cli {

// Level by level: each host that is there starts as many of the next ones as it may, one in turn with the others.
std::vector<std::optional<std::size_t>> starters_of(std::size_t hosts, std::size_t fan_out) {
  std::vector<std::optional<std::size_t>> starters;
  if (fan_out == 0) fan_out = hosts;
  std::vector<std::optional<std::size_t>> level{std::nullopt};  // who starts the next ones
  while (starters.size() < hosts) {
    const std::size_t first = starters.size();
    const std::size_t last = std::min(hosts, first + level.size() * fan_out);
    for (std::size_t i = first; i < last; ++i) starters.push_back(level[(i - first) % level.size()]);
    level.clear();
    for (std::size_t i = first; i < last; ++i) level.emplace_back(i);
  }
  return starters;
}

HostTree::HostTree(ChildProcesses& children, const HostLauncher& launcher, std::span<const Host> hosts,
                   const std::string& agent) {
  const std::vector<std::optional<std::size_t>> starters = starters_of(hosts.size(), launcher.fan_out());
  std::vector<HostRelay*> relay_of(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Host& host = hosts[i];
    const bool is_relay = std::find(starters.begin(), starters.end(), std::optional(i)) != starters.end();
    std::vector<std::string> words{agent};
    if (is_relay) words.emplace_back(kRelayOption);
    words = launcher.command(host, words);
    std::unique_ptr<HostCommand> command =
        starters[i]
            ? relay_of[*starters[i]]->command(host.name, std::move(words))
            : std::make_unique<ChildCommand>(children, std::move(words), fmt::format("[{}] ", host.name),
                                             launcher.inherited(host));
    if (is_relay) {
      relays_.push_back(std::make_unique<HostRelay>(children, host.name, std::move(command)));
      relay_of[i] = relays_.back().get();
      command = relay_of[i]->command(host.name, {agent});
    }
    commands_.push_back(std::move(command));
  }
}

void HostTree::watch(std::vector<pollfd>& fds, bool is_read) const {
  for (const auto& relay : relays_) relay->watch(fds, is_read);
}

Instant HostTree::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& relay : relays_) next = earlier(next, relay->next_deadline());
  return next;
}

void HostTree::turn(Instant now, bool is_read) {
  for (const auto& relay : relays_) relay->turn(now, is_read);
}

bool HostTree::take_end(const EndedChild& ended) {
  return std::any_of(relays_.begin(), relays_.end(),
                     [&](const auto& relay) { return relay->take_end(ended); });
}

}  // namespace braid::cli
