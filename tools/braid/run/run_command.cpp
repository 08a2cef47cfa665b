#include "tools/braid/run/run_command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/limits.h"
#include "base/system_error.h"
#include "proxy/daemon/key_log.h"
#include "settings/run_words.h"
#include "settings/words.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/command_line/settings_options.h"
#include "tools/braid/counted.h"
#include "tools/braid/find_program.h"
#include "tools/braid/run/host_options.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/run/ranks/serve_rank.h"
#include "tools/braid/run/report.h"
#include "tools/braid/run/show_plan.h"
#include "tools/braid/run/supervisor.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "The application is a path, a program beside this command, or a program in PATH, in this order. All words after its name\n"
    "go to it unchanged. Its lines have a label, [c0] for cluster 0 (--label none: none); those of the daemons have [braidd 0]. Standard input\n"
    "goes to cluster 0, or where --stdin says. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded. At SIGQUIT every process prints\n"
    "what its compute nodes wait for, and continues. 3 s after a signal that ends programs, or at a second one, everything is\n"
    "killed. No process of the application is left, however the run ends, where the system permits a namespace of process\n"
    "numbers (root, or unprivileged user namespaces); elsewhere one that left its process group (setsid) stays.\n"
    "\n"
    "Settings come from the configuration file, if one is given, and then from the options, which win. 'braid help defaults'\n"
    "prints a file with all of them.\n"
    "\n"
    "Status: that of the application's process that failed first (128 + n if signal n killed it); 64: wrong usage; 70: a daemon was\n"
    "lost, the run could not start, or standard output could not be written; 73: the report, the folder of the captures or\n"
    "the file of keys cannot be written; 78: wrong configuration.\n"
    "\n"
    "Examples:\n"
    "  braid run --clusters 2 --compute 2 --proxies 2 jacobi --size 1024 --iterations 10\n"
    "  braid run --config configs/lossy.yaml --seed 7 jacobi\n"
    "  braid run --clusters 4 --compute 1 --wire dpdk --report run.json matmul\n"
    "  braid run --hosts node1:2,node2:2 jacobi\n"
    "  braid run --show-plan --hosts node1:2,node2:2 jacobi\n"
    "  mpirun -n 4 --map-by node --bind-to none braid run jacobi\n"
    "  srun --mpi=pmix braid run jacobi\n";

struct Arguments {
  SettingsOptions settings{false};
  bool quiet = false;
  bool shows_plan = false;
  std::string debugger;
  std::string debugger_commands;
  std::string input;
  std::string labels;
  HostOptions hosts;
  std::string folder;
  std::vector<std::string> exported;
  bool sends_program = false;
  unsigned ssh_fan_out = 32;
};

// Makes the folder for captures before the run, so that a wrong folder costs no time.
void prepare_capture(const settings::RunConfig& config) {
  const std::string& folder = config.capture.directory;
  if (folder.empty()) return;
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (!problem && ::access(folder.c_str(), W_OK | X_OK) != 0)
    problem = std::error_code(errno, std::generic_category());
  if (problem)
    refuse(kCannotCreateStatus,
           fmt::format("--capture: {} cannot be written: {}; name a folder that this user may write in",
                       folder, problem.message()));
}

// The same for the file of keys, which must have keys to hold.
void prepare_keylog(const RunOptions& options) {
  const std::string& path = options.config.security.keylog;
  if (path.empty()) return;
  if (!settings::is_sealed(options.config.security.mode, options.config.wire == settings::Wire::kShm))
    refuse(
        kUsageStatus,
        "--keylog: no packet of this run is sealed, so there are no keys, and captures can be read as they are; leave "
        "the option out, or give --security required");
  if (!options.hosts.empty()) return;
  const Result<std::unique_ptr<proxy::KeyLog>> log = proxy::KeyLog::open(path);
  if (!log) refuse(kCannotCreateStatus, fmt::format("--keylog: {}", log.error().text));
}

Labels labels_of(const Arguments& arguments, const Given& given) {
  if (!given.has("--label")) return Labels::kAll;
  const std::optional<Labels> labels = labels_named(arguments.labels);
  if (!labels)
    refuse(kUsageStatus,
           fmt::format("--label {}: before their lines all outputs have a label, stderr alone, or none",
                       arguments.labels));
  return *labels;
}

std::optional<DebuggerOptions> debugger_of(const Arguments& arguments, const Given& given,
                                           const settings::RunConfig& config, const std::string& path) {
  if (given.has("--gdb-command") && !given.has("--gdb"))
    refuse(kUsageStatus, "--gdb-command names commands for a debugger: --gdb CLUSTER.NODE starts one");
  if (!given.has("--gdb")) return {};
  if (given.has("--gdb-command") && arguments.debugger_commands.empty())
    refuse(kUsageStatus, "--gdb-command: the name of the file is empty");
  const Result<DebuggerOptions> plan =
      plan_debugger(arguments.debugger, arguments.debugger_commands, config, path);
  if (!plan) refuse(kUsageStatus, plan.error().text);
  return *plan;
}

InputReaders readers_of(const Arguments& arguments, const Given& given) {
  if (!given.has("--stdin") || arguments.input == "first") return InputReaders::kFirst;
  if (arguments.input == "all") return InputReaders::kAll;
  if (arguments.input == "none") return InputReaders::kNone;
  refuse(kUsageStatus, fmt::format("--stdin {}: standard input is read by the first cluster, all or none",
                                   arguments.input));
}

// Options of hosts that `braid run` alone has.
std::vector<Host> hosts_of(const Arguments& arguments, const Given& given) {
  std::vector<Host> hosts = arguments.hosts.hosts(given);
  if (hosts.empty()) {
    for (const char* const option : {"--send", "--folder", "--ssh-fan-out"})
      if (given.has(option))
        refuse(kUsageStatus,
               fmt::format("{} is of --hosts, --hostfile or --launcher slurm, and none is given", option));
  }
  return hosts;
}

// Of several hosts, of which clusters are.
void check_wire(const RunOptions& options) {
  const settings::Wire wire = options.config.wire;
  const std::string option = fmt::format("--wire {}", settings::word_of(wire));
  if (wire != settings::Wire::kUdp && !is_at_interface(wire))
    refuse(kUsageStatus, option + ": between hosts it is udp, af_xdp or af_packet; leave the option out");
  for (const Host& host : options.hosts)
    if (wire == settings::Wire::kXdp && host.clusters > 1)
      refuse(
          kUsageStatus,
          fmt::format(
              "{}: {} has {} clusters, and an interface serves one; give --per-host 1, or take af_packet or udp",
              option, host.name, host.clusters));
  if (is_at_interface(wire) && are_this_machine(options.hosts))
    refuse(kUsageStatus,
           option + ": the hosts have addresses of the loopback network, which is no Ethernet; take udp");
}

// Clusters of several hosts: how many, with how many NIs, over which wire. What the user said must fit.
void spread(const Arguments& arguments, const Given& given, settings::Collector<settings::RunConfig>& builder,
            RunOptions& options) {
  if (given.has("--gdb"))
    refuse(kUsageStatus,
           "--gdb opens a debugger on this host; leave out --hosts, or attach gdb on the other one");
  const auto of_user = [&](const char* key, unsigned value) {
    return builder.is_given(key) ? std::optional(value) : std::nullopt;
  };
  const unsigned clusters =
      arguments.hosts.place(given, options.hosts, of_user("clusters", options.config.clusters));
  unsigned nis = 1;  // the most of a host with the run's number of proxies
  for (const Host& host : options.hosts) {
    const auto own = static_cast<unsigned>(host.addresses.size());
    if (of_user("nis", options.config.nis).value_or(own) != own)
      refuse(kUsageStatus,
             fmt::format("--nis {}: host {} has {}; leave the option out, or give other addresses",
                         options.config.nis, host.name, counted(own, "address", "addresses")));
    if (host.proxies == 0) nis = std::max(nis, own);
    if (host.proxies != 0 && host.proxies < own)
      refuse(
          kUsageStatus,
          fmt::format(
              "host {}: {} addresses for {} proxies: each proxy uses one; give it at least {} proxies, or fewer addresses",
              host.name, own, host.proxies, own));
  }
  const auto set = [&](const char* key, const std::string& text) {
    if (const Result<void> done = builder.set(key, text, "--hosts:"); !done)
      refuse(kUsageStatus, done.error().text);
  };
  if (!builder.is_given("wire")) set("wire", "udp");
  if (!builder.is_given("transport.mtu_bytes")) set("transport.mtu_bytes", std::to_string(kHostsMtuBytes));
  set("clusters", std::to_string(clusters));
  set("nis", std::to_string(nis));
  const Result<settings::RunConfig> config = builder.finish();
  if (!config) refuse(kUsageStatus, config.error().text);
  options.config = *config;
  check_wire(options);
}

// NAME=VALUE, or NAME with the value that it has here.
std::pair<std::string, std::string> exported_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (text.starts_with(kOwnVariables))
    refuse(
        kUsageStatus,
        fmt::format(
            "-x {}: the run itself sets the variables {}...; give the options of 'braid run' instead, or take "
            "another name",
            text, kOwnVariables));
  if (equals != std::string::npos && equals > 0) return {text.substr(0, equals), text.substr(equals + 1)};
  const char* const value = std::getenv(text.c_str());
  if (equals == 0 || value == nullptr)
    refuse(kUsageStatus, fmt::format("-x {}: there is no such variable here; give -x NAME=VALUE", text));
  return {text, value};
}

// On one host several are a run of as many clusters, on several hosts they are what --hosts makes. One alone is no job.
void take_ranks(const RankedRun& ranks, settings::Collector<settings::RunConfig>& builder,
                RunOptions& options) {
  if (ranks.hosts.size() > 1) {
    for (const RankHost& host : ranks.hosts) options.hosts.push_back(host.host);
    return;
  }
  if (ranks.cards.size() == 1 || builder.is_given("clusters")) return;
  const Result<void> done =
      builder.set("clusters", std::to_string(ranks.cards.size()), "the ranks of this job:");
  if (!done) refuse(kUsageStatus, done.error().text);
  const Result<settings::RunConfig> config = builder.finish();
  if (!config) refuse(kUsageStatus, config.error().text);
  options.config = *config;
}

std::shared_ptr<const HostLauncher> launcher_of(const Arguments& arguments, const RankedRun* ranks,
                                                const std::vector<Host>& hosts) {
  if (ranks == nullptr) return arguments.hosts.launcher(hosts, arguments.ssh_fan_out);
  Result<std::unique_ptr<HostLauncher>> launcher = pmix_launcher(*ranks);
  if (!launcher) refuse(kLostDaemonStatus, launcher.error().text);
  return std::move(*launcher);
}

std::shared_ptr<const Descriptor> open_program(const std::string& path) {
  auto program = std::make_shared<const Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!*program) refuse(kUsageStatus, fmt::format("--send: {}: {}", path, cause_and_cure(errno)));
  return program;
}

void prepare_hosts(const Arguments& arguments, const Given& given, const RankedRun* ranks,
                   settings::Collector<settings::RunConfig>& builder, RunOptions& options) {
  if (ranks != nullptr)
    take_ranks(*ranks, builder, options);
  else
    options.hosts = hosts_of(arguments, given);
  for (const std::string& text : arguments.exported) options.exported.push_back(exported_variable(text));
  if (options.hosts.empty()) return;
  spread(arguments, given, builder, options);
  options.launcher = launcher_of(arguments, ranks, options.hosts);
  options.agent = arguments.hosts.agent(given);
  if (arguments.sends_program) options.sent_program = open_program(options.application);
  std::error_code problem;
  options.folder = given.has("--folder") ? arguments.folder : std::filesystem::current_path(problem).string();
  options.application = std::filesystem::absolute(options.application, problem).string();
}

// Frames of these runs go where others may be.
bool leaves_this_host(const RunOptions& options) {
  return !options.hosts.empty() || (options.config.wire == settings::Wire::kDpdk &&
                                    options.config.dpdk.kind == settings::DpdkKind::kAfPacket);
}

void prepare_security(RunOptions& options) {
  if (options.config.security.mode == settings::SecurityMode::kOff) {
    if (leaves_this_host(options))
      fmt::print(stderr,
                 "braid: security is off: packets between hosts are neither encrypted nor authenticated\n");
    return;
  }
  options.is_sealed = true;
}

int run_application(const Arguments& arguments, const Given& given) {
  RunOptions options;
  options.command = given.application();
  std::optional<RankedRun> ranks;
  if (arguments.hosts.is_rank(given)) {
    ranks = join_job();
    std::vector<std::string> node{arguments.hosts.agent(given)};
    if (arguments.shows_plan) node.emplace_back("--plan");
    if (ranks->rank != 0) return serve_rank(std::move(*ranks), node);
  }
  settings::Collector<settings::RunConfig> builder;
  options.config = arguments.settings.configure(given, builder);
  const char* const path = std::getenv("PATH");
  const Result<std::string> application =
      find_application(options.command.front(), own_folder(), path == nullptr ? "" : path);
  if (!application) refuse(kUsageStatus, application.error().text);
  options.application = *application;
  prepare_hosts(arguments, given, ranks ? &*ranks : nullptr, builder, options);
  if (options.hosts.empty()) {
    if (is_at_interface(options.config.wire))
      refuse(
          kUsageStatus,
          fmt::format(
              "--wire {}: is for --hosts or --hostfile, and neither is given; on one host take shm or udp{}",
              settings::word_of(options.config.wire),
              options.config.wire == settings::Wire::kPacket
                  ? ", or '--wire dpdk --dpdk af_packet' with interfaces of its own"
                  : ""));
    const Result<std::string> daemon = find_daemon(own_folder());
    if (!daemon) refuse(kLostDaemonStatus, daemon.error().text);
    options.daemon = *daemon;
    if (const std::string unused = arguments.hosts.unused_hosts();
        !unused.empty() && !arguments.quiet && !ranks)
      fmt::print(stderr, "braid: {}\n", unused);
  }
  if (arguments.shows_plan) return show_plan(options);
  options.is_quiet = arguments.quiet;
  prepare_security(options);
  options.input = readers_of(arguments, given);
  options.labels = labels_of(arguments, given);
  options.debugger = debugger_of(arguments, given, options.config, path == nullptr ? "" : path);
  OutputFileOption report_file("--report", arguments.settings.report_file());
  if (options.hosts.empty()) prepare_capture(options.config);
  prepare_keylog(options);

  const Result<RunReport> report = supervise(std::move(options));
  if (!report) refuse(kLostDaemonStatus, report.error().text);
  if (!arguments.quiet) std::fputs(render_text(*report).c_str(), stderr);
  report_file.write(render_json(*report));
  report_file.close();
  return report->status;
}

std::vector<Option> host_options(Arguments& arguments) {
  std::vector<Option> options = arguments.hosts.options();
  for (
      Option& option : std::vector<Option>{
          {.names = "--send",
 .help = "send the application to the hosts, which have no copy",
 .target = &arguments.sends_program},
          {.names = "--folder",
          .value_text = "PATH",
          .help = "the working folder on the hosts [this one]",
          .target = &arguments.folder},
          {.names = "--ssh-fan-out",
          .value_text = "N",
          .help =
               "of more hosts than N start the others through these, by ssh from host to host, and so on;\n0: start all from here [32]",
          .target = NumberTarget<unsigned>{&arguments.ssh_fan_out, 0, kMaxClusters}},
          {.names = "-x",
          .value_text = "NAME[=VALUE]",
          .help = "a variable for the application's environment; may be repeated",
          .target = &arguments.exported}}) {
    option.group = "Hosts";
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace

Subcommand run_command() {
  const auto arguments = std::make_shared<Arguments>();
  Subcommand command{.name = "run",
                     .about = "Run an application on clusters on this machine, or on several hosts",
                     .usage = "braid run [options] application [arguments of the application]",
                     .footer = kFooter,
                     .options = arguments->settings.files(),
                     .takes_application = true,
                     .run = [arguments](const Given& given) { return run_application(*arguments, given); }};
  command.options.push_back(
      {.names = "--quiet",
       .help = "no closing report, and no warning of threads without cores, on standard error",
       .target = &arguments->quiet});
  command.options.push_back(
      {.names = "--show-plan",
       .help = "print which processor each proxy and compute node would run on, on every host, and end",
       .target = &arguments->shows_plan});
  command.options.push_back(
      {.names = "--gdb",
       .value_text = "CLUSTER.NODE",
       .help = "open gdb on the process of this cluster, before its main();\n'node' in gdb selects the "
               "compute node; no watchdog",
       .target = &arguments->debugger});
  command.options.push_back({.names = "--stdin",
                             .value_text = "first|all|none",
                             .help = "which clusters read standard input; of 'all' each reads all of it",
                             .target = &arguments->input});
  command.options.push_back(
      {.names = "--label",
       .value_text = "all|stderr|none",
       .help =
           "which outputs of the application have a label, [c0] for cluster 0, before each line; the others are\n"
           "passed at once and byte for byte, as binary data must be [all]",
       .target = &arguments->labels});
  command.options.push_back({.names = "--gdb-command",
                             .value_text = "FILE",
                             .help = "for --gdb: gdb executes this file instead of reading commands",
                             .target = &arguments->debugger_commands});
  for (Option& option : host_options(*arguments)) command.options.push_back(std::move(option));
  for (Option& option : arguments->settings.settings()) command.options.push_back(std::move(option));
  return command;
}

}  // namespace braid::cli
