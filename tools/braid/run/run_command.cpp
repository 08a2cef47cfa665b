#include "tools/braid/run/run_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/command_line/settings_options.h"
#include "tools/braid/find_program.h"
#include "tools/braid/run/report.h"
#include "tools/braid/run/supervisor.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "The application is a path, a program beside this command, or a program in PATH, in this order. All words after its name\n"
    "go to it unchanged. Its lines have a prefix, [c0] for cluster 0; those of the daemons have [braidd 0]. Standard input\n"
    "goes to cluster 0, or where --stdin says. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded. At SIGQUIT every process prints\n"
    "what its compute nodes wait for, and continues. 3 s after a signal that ends programs, or at a second one, everything is\n"
    "killed. No process of the application is left, however the run ends, where the system permits a namespace of process\n"
    "numbers (root, or unprivileged user namespaces); elsewhere one that left its process group (setsid) stays.\n"
    "\n"
    "Settings come from the configuration file, if one is given, and then from the options, which win. 'braid help defaults'\n"
    "prints a file with all of them.\n"
    "\n"
    "Status: that of the application's process that failed first (128 + n if signal n killed it); 64: wrong usage; 70: a daemon was\n"
    "lost, the run could not start, or standard output could not be written; 73: the report or the folder of the captures\n"
    "cannot be written; 78: wrong configuration.\n"
    "\n"
    "Examples:\n"
    "  braid run --clusters 2 --compute 2 --proxies 2 jacobi --size 1024 --iterations 10\n"
    "  braid run --config configs/lossy.yaml --seed 7 jacobi\n"
    "  braid run --clusters 4 --compute 1 --wire dpdk --report run.json matmul\n";

struct Arguments {
  SettingsOptions settings{false};
  bool quiet = false;
  std::string debugger;
  std::string debugger_commands;
  std::string input;
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

int run_application(const Arguments& arguments, const Given& given) {
  RunOptions options;
  options.command = given.application();
  settings::Collector<settings::RunConfig> builder;
  options.config = arguments.settings.configure(given, builder);
  const char* const path = std::getenv("PATH");
  const Result<std::string> application =
      find_application(options.command.front(), own_folder(), path == nullptr ? "" : path);
  if (!application) refuse(kUsageStatus, application.error().text);
  const Result<std::string> daemon = find_daemon(own_folder());
  if (!daemon) refuse(kLostDaemonStatus, daemon.error().text);
  options.application = *application;
  options.daemon = *daemon;
  options.input = readers_of(arguments, given);
  options.debugger = debugger_of(arguments, given, options.config, path == nullptr ? "" : path);
  OutputFileOption report_file("--report", arguments.settings.report_file());
  prepare_capture(options.config);

  const Result<RunReport> report = supervise(options);
  if (!report) refuse(kLostDaemonStatus, report.error().text);
  if (!arguments.quiet) std::fputs(render_text(*report).c_str(), stderr);
  report_file.write(render_json(*report));
  report_file.close();
  return report->status;
}

}  // namespace

Subcommand run_command() {
  const auto arguments = std::make_shared<Arguments>();
  Subcommand command{.name = "run",
                     .about = "Run an application on clusters on this machine",
                     .usage = "braid run [options] application [arguments of the application]",
                     .footer = kFooter,
                     .options = arguments->settings.files(),
                     .takes_application = true,
                     .run = [arguments](const Given& given) { return run_application(*arguments, given); }};
  command.options.push_back(
      {.names = "--quiet", .help = "no closing report on standard error", .target = &arguments->quiet});
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
  command.options.push_back({.names = "--gdb-command",
                             .value_text = "FILE",
                             .help = "for --gdb: gdb executes this file instead of reading commands",
                             .target = &arguments->debugger_commands});
  for (Option& option : arguments->settings.settings()) command.options.push_back(std::move(option));
  return command;
}

}  // namespace braid::cli
