#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <sstream>

#include "base/limits.h"
#include "tools/braid/ask.h"
#include "tools/braid/number_in.h"
#include "tools/braid/run/launchers/host_launcher.h"

namespace braid::cli {
namespace {

// The words that make `munge` and `unmunge` speak to the munged that Slurm speaks to.
Result<std::vector<std::string>> munge_words() {
  const Result<std::string> config = ask("scontrol", {"show", "config"});
  if (!config) return config.error();
  std::istringstream lines(*config);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("socket=");
    if (line.starts_with("AuthInfo") && at != std::string::npos)
      return std::vector<std::string>{"--socket", line.substr(at + 7, line.find_first_of(", ", at) - at - 7)};
  }
  return std::vector<std::string>();
}

// Options of srun's from the user's environment, which the steps of a run cannot have: each is one task that uses the whole of its job's
// part of the host, and messages pass through its streams as they are.
constexpr const char* kForTheUsersOwnSteps[] = {"SLURM_LABELIO",    "SLURM_STDINMODE",   "SLURM_STDOUTMODE",
                                                "SLURM_STDERRMODE", "SLURM_EXACT",       "SRUN_CPUS_PER_TASK",
                                                "SLURM_EXCLUSIVE",  "SLURM_DISTRIBUTION"};

class Slurm final : public HostLauncher {
 public:
  Slurm() {
    for (const char* const name : kForTheUsersOwnSteps) ::unsetenv(name);
  }
  const char* name() const override { return "slurm"; }

  // One task with all processors that the job has on the host, beside the steps of the other hosts. Unbuffered: what passes
  // are messages, not lines.
  std::vector<std::string> command(const Host& host, const std::vector<std::string>& words) const override {
    std::vector<std::string> all = {"srun",       "--nodes=1",       "--ntasks=1",
                                    "--overlap",  "--unbuffered",    "--quiet",
                                    "--mpi=none", "--cpu-bind=none", "--nodelist=" + host.name};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // srun's streams are not encrypted; a credential is, with the cluster's key.
  Result<std::optional<std::string>> credential(stack::KeyView secret) const override {
    Result<std::vector<std::string>> words = munge_words();
    if (!words) return words.error();
    words->push_back(fmt::format("--restrict-uid={}", ::geteuid()));
    const Result<std::string> made =
        ask("munge", *words, {reinterpret_cast<const char*>(secret.data()), secret.size()});
    if (!made)
      return error(
          "the run's secret cannot be hidden on its way through srun: {}; make munge work here and on every host, or take "
          "--launcher ssh, or --security off",
          made.error().text);
    return std::optional(*made);
  }
};

// The value of "NodeAddr=10.0.0.1" among other words; empty: there is none.
std::string address_in(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (word.starts_with("NodeAddr=")) return word.substr(word.find('=') + 1);
  return "";
}

bool is_ipv4(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
}

// Slurm knows the address even where the name has none; where it has only a name, that is looked up as any other.
Result<void> ask_for_address(Host& host) {
  const Result<std::string> about = ask("scontrol", {"show", "node", host.name, "--oneliner"});
  if (!about) return about.error();
  if (const std::string address = address_in(*about); is_ipv4(address)) host.addresses.push_back(address);
  return {};
}

}  // namespace

std::unique_ptr<HostLauncher> slurm_launcher() {
  return std::make_unique<Slurm>();
}

Result<std::string> open_slurm_credential(const std::string& credential) {
  Result<std::vector<std::string>> words = munge_words();
  if (!words) return words.error();
  words->emplace_back("--metadata=/dev/null");
  const Result<std::string> opened = ask("unmunge", *words, credential);
  if (!opened)
    return error("the run's secret cannot be read from what MUNGE has made of it: {}", opened.error().text);
  return *opened;
}

Result<std::vector<unsigned>> tasks_per_node(const std::string& text) {
  std::vector<unsigned> all;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t times = part.find("(x");
    const std::optional<unsigned> tasks = number_in<unsigned>(part.substr(0, times));
    const std::optional<unsigned> nodes =
        times == std::string::npos ? std::optional<unsigned>(1)
                                   : number_in<unsigned>(part.substr(times + 2, part.size() - times - 3));
    if (!tasks || !nodes || *nodes > kMaxClusters)
      return error("SLURM_TASKS_PER_NODE is '{}', not as 2(x3),1", text);
    all.insert(all.end(), *nodes, *tasks);
  }
  return all;
}

Result<std::vector<Host>> slurm_hosts() {
  if (const std::string parts = variable("SLURM_HET_SIZE"); !parts.empty())
    return error(
        "--launcher slurm: this is a heterogeneous job, of {} parts, and a run takes the hosts of one allocation: "
        "ask for all hosts in one, or name those of the first part with --hosts",
        parts);
  const std::string nodes = variable("SLURM_JOB_NODELIST");
  if (nodes.empty())
    return error("--launcher slurm: this is not inside an allocation: start it by sbatch or salloc");
  const Result<std::string> names = ask("scontrol", {"show", "hostnames", nodes});
  if (!names) return names.error();
  const Result<std::vector<unsigned>> tasks = tasks_per_node(variable("SLURM_TASKS_PER_NODE"));
  if (!tasks) return tasks.error();
  std::vector<Host> hosts;
  std::istringstream lines(*names);
  for (std::string name; std::getline(lines, name);) {
    Host host{.name = name, .slots = hosts.size() < tasks->size() ? (*tasks)[hosts.size()] : 1};
    if (const Result<void> done = ask_for_address(host); !done) return done.error();
    hosts.push_back(std::move(host));
  }
  return hosts;
}

void ask_slurm_for_addresses(std::vector<Host>& hosts) {
  for (Host& host : hosts)
    if (host.addresses.empty() && !is_this_machine(host)) (void)ask_for_address(host);
}

unsigned slurm_nodes() {
  const std::string of_step = variable("SLURM_STEP_NUM_NODES");
  return number_in<unsigned>(of_step.empty() ? variable("SLURM_JOB_NUM_NODES") : of_step).value_or(0);
}

}  // namespace braid::cli
