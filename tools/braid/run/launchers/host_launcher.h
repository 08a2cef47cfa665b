// How the braid-node of a host is started, and how a run's secret reaches it: with what exists on clusters already. Each launcher is
// a file of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/secure/raw_bytes.h"
#include "tools/braid/run/hosts.h"

namespace braid::cli {

class HostLauncher {
 public:
  virtual ~HostLauncher() = default;
  virtual const char* name() const = 0;
  // The words of the command that runs `words` on the host, with its standard input, output and error connected to those of
  // the command. The first is looked for in PATH. Pure.
  virtual std::vector<std::string> command(const Host& host, const std::vector<std::string>& words) const = 0;
  // How many hosts this process starts by itself, and each host that starts others by such commands, too (tree/host_tree.h); 0: this process starts all.
  virtual std::size_t fan_out() const { return 0; }
  // Descriptors that the command needs; they stay this object's.
  virtual std::vector<int> inherited(const Host&) const { return {}; }
  // Where others could read what passes through the command's standard input: a credential that holds the secret, which one host's
  // processes of this user can open, once. Nothing: nobody can. Blocks while it is made. The error names the cure.
  virtual Result<std::optional<std::string>> credential(stack::KeyView) const {
    return std::optional<std::string>();
  }
};

// On this host: for addresses of the loopback network.
std::unique_ptr<HostLauncher> local_launcher();
// The OpenSSH client, with the user's configuration and keys. `ssh`: the command, and options of it, as they are on each host that starts others.
std::unique_ptr<HostLauncher> ssh_launcher(std::vector<std::string> ssh, std::size_t fan_out = 0);
// A step of the Slurm allocation that this process runs in.
std::unique_ptr<HostLauncher> slurm_launcher();
// The ranks of a PMIx job: those of other hosts are there already.
struct RankedRun;
Result<std::unique_ptr<HostLauncher>> pmix_launcher(const RankedRun& run);
// The hosts of that allocation, as Slurm gave them out: a slot for each task, and the addresses that Slurm has. Blocks while
// scontrol is asked. An error: there is no allocation, or scontrol fails.
Result<std::vector<Host>> slurm_hosts();
// Gives those of these hosts that have no address the one that Slurm has, if it knows the host. Blocks as well.
void ask_slurm_for_addresses(std::vector<Host>& hosts);
// How many hosts the allocation has, or the step of it, in which this process runs; 0: it runs in none.
unsigned slurm_nodes();
// What a credential of the Slurm launcher holds, on the host that it is for. Blocks while MUNGE is asked.
Result<std::string> open_slurm_credential(const std::string& credential);
// How many tasks each node has, from Slurm's SLURM_TASKS_PER_NODE: "2(x3),1" is 2, 2, 2, 1.
Result<std::vector<unsigned>> tasks_per_node(const std::string& text);

// `name`: auto, local, ssh or slurm. auto: slurm in an allocation, local where all hosts are loopback addresses, else ssh.
// `ssh`, `fan_out`: of ssh_launcher().
Result<std::unique_ptr<HostLauncher>> choose_launcher(const std::string& name, const std::vector<Host>& hosts,
                                                      const std::vector<std::string>& ssh,
                                                      std::size_t fan_out);

}  // namespace braid::cli
