#include "tools/braid/simulate/sim_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/command_line/settings_options.h"
#include "tools/braid/find_program.h"
#include "tools/braid/simulate/simulate.h"
#include "tools/braid/simulate/thread_variables.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "The application is a program that was built for simulation (beside this command, in sim/), or a path. The program of a\n"
    "cluster runs as one process whose compute nodes take turns. Protocols and programs are those of 'braid run'; the model\n"
    "determines their time. The same command gives the same trace, whatever else the machine does.\n"
    "\n"
    "Status: the largest of the application's processes' (128 + n if signal n killed it); 1: the run could not continue; 64:\n"
    "wrong usage; 66: the program was built with --check-races and has data races; 73: the report or the trace cannot be written, all of it; 78: wrong configuration or model.\n"
    "\n"
    "Examples:\n"
    "  braid sim --clusters 4 --compute 4 --proxies 2 water\n"
    "  braid sim --clusters 16 --compute 1 --mode no-contention --report run.json water\n"
    "  braid sim --clusters 2 --compute 8 --trace messages.jsonl jacobi --size 256\n"
    "  braid sim --idle-message 0:4000:100\n";

struct Arguments {
  SettingsOptions settings{true};
  std::string trace_file;
  std::string idle_message;
  std::string debugger;
  bool quiet = false;
};

// Nobody sends other messages then, so there is no run that could be written down.
void refuse_beside_idle_message(const Given& given) {
  for (const char* const option : {"--report", "--trace"})
    if (given.has(option))
      refuse(kUsageStatus, fmt::format("sim: --idle-message runs no application; leave {} out", option));
  if (given.has_application())
    refuse(kUsageStatus, fmt::format("sim: --idle-message runs no application; leave '{}' out",
                                     given.application().front()));
}

int print_idle_messages(const SimulationOptions& options, const std::string& range) {
  const Result<std::string> csv = idle_messages(options, range);
  if (!csv) refuse(kConfigStatus, csv.error().text);
  print(*csv);
  return 0;
}

// Such a program computes something else than live, and nothing else would say so.
void warn_of_thread_variables(const SimulationOptions& options) {
  if (options.config.compute == 1) return;
  std::vector<std::string> names = thread_variables(options.application);
  if (names.empty()) return;
  constexpr std::size_t kShown = 5;
  const std::size_t others = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - others);
  fmt::print(
      stderr,
      "braid: {} has thread-local variables ({}{}), which the {} compute nodes of a cluster share in simulation, "
      "because they take turns on one thread; --compute 1 gives each its own\n",
      options.command.front(), fmt::join(names, ", "), others == 0 ? "" : fmt::format(" and {} more", others),
      options.config.compute);
}

int simulate_application(const Arguments& arguments, const Given& given) {
  SimulationOptions options;
  if (given.has("--gdb"))
    refuse(
        kUsageStatus,
        "--gdb: a simulated cluster stands still most of the time, while its compute nodes wait for their turn as fibres of "
        "one thread; build the program without --simulated and start it with `braid run --gdb`");
  if (arguments.idle_message.empty())
    options.command = given.application();
  else
    refuse_beside_idle_message(given);
  settings::Collector<settings::RunConfig> builder;
  arguments.settings.read(given, builder);
  options.models = models_folder();
  const Result<settings::CostModel> model = load_model(builder.unchecked().simulation.model, options.models);
  if (!model) refuse(kConfigStatus, model.error().text);
  if (const Result<void> good = check_simulated(builder, *model); !good)
    refuse(kConfigStatus, good.error().text);
  options.take(builder);
  if (!arguments.idle_message.empty()) return print_idle_messages(options, arguments.idle_message);
  const Result<std::string> application =
      find_application(options.command.front(), simulated_applications(), "");
  if (!application) refuse(kUsageStatus, application.error().text);
  // What the kernel cannot protect the program checks.
  const bool is_checked =
      engine_settings(options.config, *model).page_length().bytes() < settings::kMinPageBytes;
  options.application = is_checked ? checked_build(*application) : *application;
  warn_of_thread_variables(options);
  if (arguments.trace_file == "-" && arguments.settings.report_file() == "-")
    refuse(kUsageStatus,
           "sim: --report and --trace would both be on standard output, one in the other; let one be a file");
  OutputFileOption report_file("--report", arguments.settings.report_file());
  OutputFileOption trace("--trace", arguments.trace_file, OutputFile::Existing::kEmptied);
  options.trace = trace.file();
  const Result<SimulationReport> report = simulate(options);
  if (!report) refuse(kConfigStatus, report.error().text);
  if (!arguments.quiet || !report->failure.empty()) std::fputs(render_text(*report).c_str(), stderr);
  std::fputs(render_races(report->races.totals).c_str(), stderr);
  report_file.write(render_json(*report));
  report_file.close();
  trace.close();
  return report->status;
}

}  // namespace

Subcommand sim_command() {
  const auto arguments = std::make_shared<Arguments>();
  Subcommand command{
      .name = "sim",
      .about = "Run an application on a simulated machine, in virtual time",
      .usage = "braid sim [options] application [arguments of the application]",
      .footer = kFooter,
      .options = arguments->settings.files(),
      .takes_application = true,
      .run = [arguments](const Given& given) { return simulate_application(*arguments, given); }};
  const Option more[] = {
      {.names = "--trace",
       .value_text = "FILE",
       .help = "write a line of JSON for every message: its times at each place, and the message before it",
       .target = &arguments->trace_file},
      {.names = "--idle-message",
       .value_text = "FIRST:LAST:STEP",
       .help =
           "no application: print the time of messages of these lengths on an idle system, as CSV in cycles",
       .target = &arguments->idle_message},
      {.names = "--gdb",
       .value_text = "CLUSTER.NODE",
       .help = "only 'braid run' has a debugger; refused here",
       .target = &arguments->debugger},
      {.names = "--quiet", .help = "no closing report on standard error", .target = &arguments->quiet}};
  command.options.insert(command.options.end(), std::begin(more), std::end(more));
  for (Option& option : arguments->settings.settings()) command.options.push_back(std::move(option));
  return command;
}

}  // namespace braid::cli
