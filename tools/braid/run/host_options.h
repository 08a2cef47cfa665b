// The options that name hosts, and how a braid-node is started on each: of `braid run` and `braid doctor`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/run/hosts.h"
#include "tools/braid/run/launchers/host_launcher.h"

namespace braid::cli {

class HostOptions {
 public:
  // Declares the options, which point into this object.
  std::vector<Option> options();
  // The hosts that the user has named, with their slots; none: none are named. `list`: in another way than by these options. An error
  // ends the command (refuse()).
  std::vector<Host> hosts(const Given& given, const std::string& list = "") const;
  // Whether this process is a rank of a PMIx job that is one run: the job has the hosts. An error ends the command: several processes were started
  // that cannot find each other, or each would have the same hosts.
  bool is_rank(const Given& given) const;
  // Gives them clusters (place_clusters()) and addresses (find_addresses()); `clusters`: how many the user wants. Blocks while names
  // are looked up. Returns the number of clusters. An error ends the command.
  unsigned place(const Given& given, std::vector<Host>& hosts, std::optional<unsigned> clusters) const;
  // `fan_out`: of ssh_launcher().
  std::unique_ptr<HostLauncher> launcher(const std::vector<Host>& hosts, std::size_t fan_out = 0) const;
  // The ssh command, and options of it. An error ends the command.
  std::vector<std::string> ssh_words() const;
  // braid-node on the hosts.
  std::string agent(const Given& given) const;
  // A line for the user of an allocation of which the run uses one host only, because it names none; empty: it is not so.
  std::string unused_hosts() const;

 private:
  std::string hosts_, host_file_, launcher_ = "auto", ssh_ = "ssh", agent_;
  unsigned per_host_ = 1;
};

}  // namespace braid::cli
