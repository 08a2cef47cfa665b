#include "tools/braid/run/host_options.h"

#include <fmt/core.h>

#include <string_view>

#include "base/limits.h"
#include "settings/document.h"
#include "tools/braid/find_program.h"
#include "tools/braid/run/ranks/pmix_job.h"
#include "tools/braid/shell_word.h"

namespace braid::cli {

std::vector<Option> HostOptions::options() {
  std::vector<Option> options = {
      {.names = "--hosts",
       .value_text = "HOST[:SLOTS],...",
       .help = "run the clusters on these hosts, as many on each as it has slots [1]",
       .target = &hosts_},
      {.names = "--hostfile",
       .value_text = "FILE",
       .help =
           "the same from a file: lines 'HOST slots=2', or YAML:\n- {host: NAME, slots: 2, addresses: [IPV4]}",
       .target = &host_file_},
      {.names = "--per-host",
       .value_text = "N",
       .help = "clusters on each host, whatever its slots",
       .target = NumberTarget<unsigned>{&per_host_, 1, kMaxClusters}},
      {.names = "--launcher",
       .value_text = "auto|local|pmix|ssh|slurm",
       .help =
           "what starts a braid-node on each host; auto: slurm in an\nallocation, local for loopback addresses, else ssh; pmix if mpirun\nor 'srun --mpi=pmix' has started this. local without hosts: none",
       .target = &launcher_},
      {.names = "--ssh",
       .value_text = "COMMAND",
       .help = "the ssh to use, with options of it [ssh]",
       .target = &ssh_},
      {.names = "--braid-node",
       .value_text = "PATH",
       .help = "braid-node on the hosts [beside this command]",
       .target = &agent_}};
  for (Option& option : options) option.group = "Hosts";
  return options;
}

std::vector<Host> HostOptions::hosts(const Given& given, const std::string& list) const {
  if (given.has("--hosts") && given.has("--hostfile"))
    refuse(kUsageStatus, "--hosts and --hostfile both name the hosts: give one of them");
  if (!list.empty() && (given.has("--hosts") || given.has("--hostfile")))
    refuse(kUsageStatus,
           fmt::format("{}: --hosts and --hostfile name the hosts, too: name them in one way", list));
  if (list.empty() && !given.has("--hosts") && !given.has("--hostfile") && launcher_ != "slurm") {
    for (const char* const option : {"--per-host", "--launcher", "--ssh", "--braid-node"})
      if (given.has(option) && (option != std::string_view("--launcher") || launcher_ != "local"))
        refuse(kUsageStatus,
               fmt::format("{} is of --hosts, --hostfile or --launcher slurm, and none is given", option));
    return {};
  }
  Result<std::vector<Host>> hosts = std::vector<Host>();
  if (!list.empty() || given.has("--hosts")) {
    hosts = parse_hosts(list.empty() ? hosts_ : list);
  } else if (!given.has("--hostfile")) {
    hosts = slurm_hosts();
  } else {
    const Result<std::string> text = settings::read_text_file(host_file_);
    if (!text) refuse(kConfigStatus, text.error().text);
    hosts = parse_host_file(*text, host_file_);
  }
  if (!hosts) refuse(given.has("--hostfile") ? kConfigStatus : kUsageStatus, hosts.error().text);
  return *hosts;
}

std::string HostOptions::unused_hosts() const {
  const unsigned nodes = slurm_nodes();
  if (launcher_ != "auto" || nodes < 2) return "";
  return fmt::format(
      "this allocation has {} hosts, and the run uses this one only: --launcher slurm takes all (--launcher local: without this line)",
      nodes);
}

bool HostOptions::is_rank(const Given& given) const {
  const bool names_hosts = given.has("--hosts") || given.has("--hostfile");
  const std::optional<unsigned> known = started_processes();
  if (launcher_ == "pmix") {
    if (names_hosts)
      refuse(kUsageStatus, "--launcher pmix: the job has the hosts: leave out --hosts and --hostfile");
    if (!is_pmix_rank())
      refuse(
          kUsageStatus,
          "--launcher pmix: no PMIx server has started this process: type 'mpirun -n 4 --map-by node --bind-to none braid run "
          "PROGRAM', or 'srun --mpi=pmix braid run PROGRAM'");
    return true;
  }
  if (launcher_ == "auto" && !names_hosts && is_pmix_rank() && known != 1u) return true;
  const unsigned processes = known.value_or(1);
  if (processes <= 1 || (launcher_ == "local" && !names_hosts)) return false;
  if (names_hosts)
    refuse(
        kUsageStatus,
        fmt::format(
            "--hosts, --hostfile: {} processes of this command were started, and each would run on these hosts; start one, or leave "
            "the option out under mpirun or 'srun --mpi=pmix'",
            processes));
  refuse(
      kUsageStatus,
      fmt::format(
          "{} processes of this command were started, which cannot find each other: type 'srun --mpi=pmix braid run PROGRAM' or "
          "'mpirun braid run PROGRAM', or start one, 'braid run --launcher slurm PROGRAM' inside the allocation; --launcher local "
          "makes a run of its own of each",
          processes));
}

unsigned HostOptions::place(const Given& given, std::vector<Host>& hosts,
                            std::optional<unsigned> clusters) const {
  const Result<unsigned> all =
      place_clusters(hosts, given.has("--per-host") ? std::optional(per_host_) : std::nullopt, clusters);
  if (!all) refuse(kUsageStatus, all.error().text);
  if (launcher_ == "slurm" || (launcher_ == "auto" && slurm_nodes() > 0)) ask_slurm_for_addresses(hosts);
  if (const Result<void> done = find_addresses(hosts); !done) refuse(kUsageStatus, done.error().text);
  return *all;
}

std::vector<std::string> HostOptions::ssh_words() const {
  std::vector<std::string> words = words_of(ssh_);
  if (words.empty())
    refuse(kUsageStatus, "--ssh: the command is empty; leave the option out, or give ssh and its options");
  return words;
}

std::unique_ptr<HostLauncher> HostOptions::launcher(const std::vector<Host>& hosts,
                                                    std::size_t fan_out) const {
  Result<std::unique_ptr<HostLauncher>> launcher = choose_launcher(launcher_, hosts, ssh_words(), fan_out);
  if (!launcher) refuse(kUsageStatus, launcher.error().text);
  return std::move(*launcher);
}

std::string HostOptions::agent(const Given& given) const {
  return given.has("--braid-node") ? agent_ : own_folder() + "/braid-node";
}

}  // namespace braid::cli
