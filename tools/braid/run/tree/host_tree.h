// The commands of a run's hosts. Where a launcher starts only so many by itself, the others are started by hosts that are relays.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/braid/run/hosts.h"
#include "tools/braid/run/launchers/host_launcher.h"
#include "tools/braid/run/tree/host_relay.h"

namespace braid::cli {

// Which host starts each of `hosts` hosts; nothing: the run itself does. Nobody starts more than `fan_out`, the paths are as short as that permits,
// and each host comes after the one that starts it. `fan_out` 0: the run starts all. Pure.
std::vector<std::optional<std::size_t>> starters_of(std::size_t hosts, std::size_t fan_out);

class HostTree {
 public:
  // `agent`: braid-node on the hosts. `children` must live as long.
  HostTree(ChildProcesses& children, const HostLauncher& launcher, std::span<const Host> hosts,
           const std::string& agent);

  // The braid-node of a host; once for each. This object must live as long.
  std::unique_ptr<HostCommand> take_command(std::size_t host) { return std::move(commands_[host]); }

  // Of the relays. `is_read`: what comes is taken.
  void watch(std::vector<pollfd>& fds, bool is_read) const;
  Instant next_deadline() const;
  void turn(Instant now, bool is_read);
  // Whether it was a relay, whose hosts then have ended, too, at the next turn.
  bool take_end(const EndedChild& ended);

 private:
  std::vector<std::unique_ptr<HostRelay>> relays_;  // each after the one that starts it
  std::vector<std::unique_ptr<HostCommand>> commands_;
};

}  // namespace braid::cli
