// How the braid-node of a host is started: with what exists on clusters already. Each launcher is a file of its own. Pure:
// from names to a command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/run/hosts.h"

namespace braid::cli {

class HostLauncher {
 public:
  virtual ~HostLauncher() = default;
  virtual const char* name() const = 0;
  // The words of the command that runs `words` on the host, with its standard input, output and error connected to those of
  // the command. The first is looked for in PATH.
  virtual std::vector<std::string> command(const Host& host, const std::vector<std::string>& words) const = 0;
};

// On this host: for addresses of the loopback network.
std::unique_ptr<HostLauncher> local_launcher();
// The OpenSSH client, with the user's configuration and keys. `ssh`: the command, and options of it.
std::unique_ptr<HostLauncher> ssh_launcher(std::vector<std::string> ssh);
// A step of the Slurm allocation that this process runs in.
std::unique_ptr<HostLauncher> slurm_launcher();
// The hosts of that allocation, as Slurm gave them out: a slot for each task, and the addresses that Slurm has. Blocks while
// scontrol is asked. An error: there is no allocation, or scontrol fails.
Result<std::vector<Host>> slurm_hosts();
// How many tasks each node has, from Slurm's SLURM_TASKS_PER_NODE: "2(x3),1" is 2, 2, 2, 1.
Result<std::vector<unsigned>> tasks_per_node(const std::string& text);

// `name`: auto, local, ssh or slurm. auto: slurm in an allocation, local where all hosts are loopback addresses, else ssh.
Result<std::unique_ptr<HostLauncher>> choose_launcher(const std::string& name, const std::vector<Host>& hosts,
                                                      const std::string& ssh);

}  // namespace braid::cli
