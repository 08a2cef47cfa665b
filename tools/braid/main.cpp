// The command `braid`: reads what it is told, and hands it to those who do it.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "proxy/channel/channel.h"
#include "tools/braid/calibrate/calibrate.h"
#include "tools/braid/find_program.h"
#include "tools/braid/inspect/counters_command.h"
#include "tools/braid/inspect/proxies_command.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/run/report.h"
#include "tools/braid/run/supervisor.h"
#include "tools/braid/run_config.h"
#include "tools/braid/simulate/simulate.h"
#include "tools/braid/study/study_command.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

// sysexits.h; an application's own status is returned as it is.
constexpr int kUsageStatus = 64;
constexpr int kConfigStatus = 78;
constexpr int kCannotCreateStatus = 73;

constexpr const char* kAbout =
    "braid makes a cluster of SMPs work as one: proxies, threads that do nothing else, carry messages "
    "between\n"
    "the clusters, and programs share memory whose pages travel as such messages.";

constexpr const char* kMainFooter =
    "Examples:\n"
    "  braid run jacobi                                 two clusters of two compute nodes on this machine\n"
    "  braid run --clusters 4 --compute 1 matmul        four clusters\n"
    "  braid run --wire dpdk jacobi --size 512          over DPDK; what follows 'jacobi' is for jacobi\n"
    "  braid sim --clusters 8 --compute 2 water         the same programs on a machine in virtual time\n"
    "  braid study configs/study-water.yaml -o water    many of these, that differ in some settings\n"
    "  braid calibrate                                  what things cost on this machine, for 'braid sim'\n"
    "  braid counters --process $(pgrep -n jacobi)      what the proxies beside that process have done so "
    "far\n"
    "  braid help run                                   everything that can be set\n";

constexpr const char* kRunFooter =
    "The application is a path, a program beside this command, or one in PATH, in this order. What follows "
    "its name goes to\n"
    "it untouched. Lines that it writes come with a prefix, [c0] for cluster 0, those of the daemons with "
    "[braidd 0]; standard\n"
    "input goes to cluster 0. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded (at "
    "SIGQUIT "
    "every process says\n"
    "what its compute nodes wait for, and goes on); 3 s after a signal that ends programs, or at a second "
    "one, "
    "everything is\n"
    "killed. Nothing is left behind, also when braid itself "
    "is killed.\n"
    "\n"
    "Settings come from the configuration file, if one is given, and then from the options, which win. "
    "configs/default.yaml\n"
    "names them all.\n"
    "\n"
    "Status: the largest of the application's processes' (128 + n if signal n killed it); 64: wrong usage; "
    "70: a daemon was\n"
    "lost or the run could not start; 73: the report or the captures cannot be written; 78: wrong "
    "configuration.\n"
    "\n"
    "Examples:\n"
    "  braid run --clusters 2 --compute 2 --proxies 2 jacobi --size 1024 --iterations 10\n"
    "  braid run --config configs/lossy.yaml --seed 7 jacobi\n"
    "  braid run --clusters 4 --compute 1 --wire dpdk --report run.json matmul\n";

constexpr const char* kSimFooter =
    "The application is one of those built for simulation (beside this command, in sim/), or a path. Every "
    "cluster's program\n"
    "runs as a process whose compute nodes take turns; protocols and programs are the ones of 'braid run', "
    "time "
    "is the model's.\n"
    "The same command gives the same trace, whatever else the machine does.\n"
    "\n"
    "Status: the largest of the application's processes' (128 + n if signal n killed it); 1: the run could "
    "not "
    "go on; 64:\n"
    "wrong usage; 73: the report cannot be written; 78: wrong configuration or model.\n"
    "\n"
    "Examples:\n"
    "  braid sim --clusters 4 --compute 4 --proxies 2 water\n"
    "  braid sim --clusters 16 --compute 1 --mode no-contention --report run.json water\n"
    "  braid sim --clusters 2 --compute 8 --trace messages.jsonl jacobi --size 256\n"
    "  braid sim --idle-message 0:4000:100\n";

[[noreturn]] void refuse(int status, const std::string& text) {
  std::fprintf(stderr, "braid: %s\n", text.c_str());
  std::exit(status);
}

// A command's help with a usage line of our words: CLI11 cannot know that an application follows the options.
class CommandFormatter : public CLI::Formatter {
 public:
  explicit CommandFormatter(std::string usage) : usage_(std::move(usage)) { column_width(44); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: " + usage_ + "\n\n";
  }

 private:
  const std::string usage_;
};

struct RunArguments {
  std::string trace_file;    // of simulations
  std::string idle_message;  // the same
  std::string config_file;
  std::string report_file;
  bool quiet = false;
  std::map<std::string, std::string> options;  // by key of the setting
  std::map<std::string, bool> flags;
};

// In lines that fit beside the options.
std::string wrapped(const std::string& text) {
  constexpr std::size_t kWidth = 64;
  std::string lines;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > 0) lines += column + 1 + end - at > kWidth ? '\n' : ' ';
    column = lines.empty() || lines.back() == '\n' ? 0 : column + 1;
    lines.append(text, at, end - at);
    column += end - at;
    at = end + 1;
  }
  return lines;
}

std::string default_text(const Setting& setting) {
  const nlohmann::json value = setting.get(RunConfig{});
  if (!value.is_string()) return value.dump();
  return value.get<std::string>().empty() ? "none" : value.get<std::string>();
}

void add_settings(CLI::App& command, RunArguments& arguments, bool simulated) {
  for (const Setting& setting : settings()) {
    if (setting.option.empty() || !is_of(setting.key, simulated)) continue;
    const std::string group = setting.key.starts_with("faults.")
                                  ? "Faults on the wire, injected where frames arrive"
                              : setting.key.starts_with("transport.")  ? "Transport"
                              : setting.key.starts_with("dpdk.")       ? "DPDK"
                              : setting.key.starts_with("capture.")    ? "Capture"
                              : setting.key.starts_with("simulation.") ? "Simulation"
                                                                       : "Machine";
    const std::string help = wrapped(fmt::format("{} [{}]", setting.help, default_text(setting)));
    if (setting.allowed == "true, false") {
      // Alone it means true; --misdirect=false takes back what a file says.
      command.add_flag(setting.option, arguments.flags[setting.key], help)->group(group);
    } else {
      command.add_option(setting.option, arguments.options[setting.key], help)
          ->type_name("(" + setting.allowed + ")")
          ->group(group);
    }
  }
}

CLI::App* describe_sim(CLI::App& app, RunArguments& arguments) {
  CLI::App* const sim =
      app.add_subcommand("sim", "Run an application on a simulated machine, in virtual time");
  sim->prefix_command();
  sim->formatter(
      std::make_shared<CommandFormatter>("braid sim [options] application [arguments of the application]"));
  sim->footer(kSimFooter);
  sim->add_option("--config", arguments.config_file, "settings from a YAML file, e.g. one of configs/")
      ->type_name("FILE");
  sim->add_option("--report", arguments.report_file,
                  "write everything that is known of the run at its end, as JSON")
      ->type_name("FILE");
  sim->add_option("--trace", arguments.trace_file,
                  "write a line of JSON for every message: when it was where, and who was before it")
      ->type_name("FILE");
  sim->add_option(
         "--idle-message", arguments.idle_message,
         "no application: print what messages of these lengths take on an idle system, as CSV in cycles")
      ->type_name("FIRST:LAST:STEP");
  sim->add_flag("--quiet", arguments.quiet, "no closing report on standard error");
  add_settings(*sim, arguments, true);
  return sim;
}

CLI::App* describe_run(CLI::App& app, RunArguments& arguments) {
  CLI::App* const run = app.add_subcommand("run", "Run an application on clusters that live on this machine");
  run->prefix_command();
  run->formatter(
      std::make_shared<CommandFormatter>("braid run [options] application [arguments of the application]"));
  run->footer(kRunFooter);
  run->add_option("--config", arguments.config_file, "settings from a YAML file, e.g. one of configs/")
      ->type_name("FILE");
  run->add_option("--report", arguments.report_file,
                  "write everything that is known of the run at its end, as JSON")
      ->type_name("FILE");
  run->add_flag("--quiet", arguments.quiet, "no closing report on standard error");
  add_settings(*run, arguments, false);
  return run;
}

// The builder knows what was given.
RunConfig configure(const CLI::App& run, const RunArguments& arguments, bool simulated,
                    ConfigBuilder& builder) {
  if (!arguments.config_file.empty()) {
    if (const Result<void> done = builder.load_file(arguments.config_file); !done)
      refuse(kConfigStatus, done.error().text);
  }
  for (const Setting& setting : settings()) {
    if (setting.option.empty() || !is_of(setting.key, simulated) || run.count(setting.option) == 0) continue;
    const auto flag = arguments.flags.find(setting.key);
    const std::string text = flag == arguments.flags.end() ? arguments.options.at(setting.key)
                             : flag->second                ? "true"
                                                           : "false";
    if (const Result<void> done = builder.set_option(setting, text); !done)
      refuse(kUsageStatus, done.error().text);
  }
  const Result<RunConfig> config = builder.finish();
  if (!config) refuse(kConfigStatus, config.error().text);
  return *config;
}

// Opened before the run: an hour's work is not lost to a misspelt folder.
Descriptor open_output(const char* option, const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file)
    refuse(kCannotCreateStatus,
           fmt::format("{}: {} cannot be written: {}", option, path, std::strerror(errno)));
  return file;
}

Descriptor open_report(const std::string& path) {
  return path.empty() ? Descriptor() : open_output("--report", path);
}

// The same of the folder for captures.
void prepare_capture(const RunConfig& config) {
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

bool write_text(const Descriptor& file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// The application and its arguments; refuses an option that is none.
std::vector<std::string> command_of(const CLI::App& run, bool simulated) {
  const std::string& name = run.get_name();
  std::vector<std::string> command = run.remaining();
  if (command.empty())
    refuse(kUsageStatus,
           fmt::format("{0}: which application? e.g. 'braid {0} jacobi'; see 'braid {0} --help'", name));
  if (command.front().size() > 1 && command.front().front() == '-') {
    std::vector<std::string> known = {"--config", "--report", "--quiet", "--help"};
    if (simulated) known.insert(known.end(), {"--trace", "--idle-message"});
    for (const Setting& setting : settings()) {
      if (!setting.option.empty() && is_of(setting.key, simulated)) known.push_back(setting.option);
    }
    const std::string word = command.front().substr(0, command.front().find('='));
    const auto near = nearest(word, known);
    refuse(
        kUsageStatus,
        fmt::format("{0}: {1} is not an option{2}; see 'braid {0} --help'. Options of the application come "
                    "after its name",
                    name, word, near ? " (did you mean " + *near + "?)" : ""));
  }
  return command;
}

// Nothing is left of what was in the file before.
void write_output(const char* option, const std::string& path, const Descriptor& file,
                  const std::string& text) {
  (void)::lseek(file.get(), 0, SEEK_SET);
  if (::ftruncate(file.get(), 0) != 0 && errno != EINVAL) errno = 0;
  if (!write_text(file, text))
    refuse(kCannotCreateStatus, fmt::format("{}: {}: {}", option, path, std::strerror(errno)));
}

void write_report(const RunArguments& arguments, const Descriptor& file,
                  const nlohmann::ordered_json& report) {
  if (!file) return;
  write_output("--report", arguments.report_file, file,
               report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

int run_application(CLI::App& run, const RunArguments& arguments) {
  std::vector<std::string> command = command_of(run, false);
  RunOptions options;
  ConfigBuilder builder;
  options.config = configure(run, arguments, false, builder);
  const char* const path = std::getenv("PATH");
  const Result<std::string> application =
      find_application(command.front(), own_folder(), path == nullptr ? "" : path);
  if (!application) refuse(kUsageStatus, application.error().text);
  const Result<std::string> daemon = find_daemon(own_folder());
  if (!daemon) refuse(kLostDaemonStatus, daemon.error().text);
  options.application = *application;
  options.daemon = *daemon;
  options.command = std::move(command);
  const Descriptor report_file = open_report(arguments.report_file);

  prepare_capture(options.config);

  const Result<RunReport> report = supervise(options);
  if (!report) refuse(kLostDaemonStatus, report.error().text);
  if (!arguments.quiet) std::fputs(render_text(*report).c_str(), stderr);
  write_report(arguments, report_file, render_json(*report));
  return report->status;
}

int simulate_application(CLI::App& sim, const RunArguments& arguments) {
  SimulationOptions options;
  if (arguments.idle_message.empty()) options.command = command_of(sim, true);
  ConfigBuilder builder;
  configure(sim, arguments, true, builder);
  options.take(builder);
  options.models = models_folder();
  options.trace_file = arguments.trace_file;
  if (!arguments.idle_message.empty()) {
    const Result<std::string> csv = idle_messages(options, arguments.idle_message);
    if (!csv) refuse(kConfigStatus, csv.error().text);
    std::fputs(csv->c_str(), stdout);
    return 0;
  }
  const Result<std::string> application =
      find_application(options.command.front(), simulated_applications(), "");
  if (!application) refuse(kUsageStatus, application.error().text);
  options.application = *application;
  const Descriptor report_file = open_report(arguments.report_file);
  const Result<SimulationReport> report = simulate(options);
  if (!report) refuse(kConfigStatus, report.error().text);
  if (!arguments.quiet || !report->failure.empty()) std::fputs(render_text(*report).c_str(), stderr);
  write_report(arguments, report_file, render_json(*report));
  return report->status;
}

struct StudyArguments {
  std::string file;
  StudyOptions options;
  bool list = false;
};

constexpr const char* kStudyFooter =
    "The file names applications, settings of all points, axes along which settings vary, and which "
    "combinations count;\n"
    "configs/study-*.yaml show how. Every point is a 'braid sim' of its own, on one processor.\n"
    "\n"
    "The folder gets points.csv (a row for each point), queues.csv (each proxy's queue over time), "
    "study.json "
    "(everything\n"
    "that is known of them), and in points/ each point's settings, what its programs wrote, and its result. "
    "A result\n"
    "is found again by everything that it follows from, programs and model included: an interrupted or "
    "changed "
    "study does\n"
    "what is missing and nothing twice.\n"
    "\n"
    "Status: 1: points failed (their commands are shown); 64: wrong usage; 73: the folder cannot be written; "
    "78: wrong study;\n"
    "128 + n: ended by signal n.\n"
    "\n"
    "Examples:\n"
    "  braid study configs/study-small.yaml -o /tmp/small\n"
    "  braid study configs/study-water.yaml -o water --jobs 2 && tools/study_table water\n"
    "  braid study configs/study-matrix.yaml --list\n";

CLI::App* describe_study(CLI::App& app, StudyArguments& arguments) {
  CLI::App* const study = app.add_subcommand(
      "study", "Simulate all combinations of some settings, and put the figures in a table");
  study->formatter(std::make_shared<CommandFormatter>("braid study file.yaml -o folder [options]"));
  study->footer(kStudyFooter);
  study->add_option("file", arguments.file, "what to vary")->option_text("FILE")->required();
  CLI::Option* const output =
      study->add_option("-o,--output", arguments.options.folder, "the results' folder; made if it is missing")
          ->option_text("FOLDER");
  study->add_option("--jobs", arguments.options.jobs, "points at a time [one for each processor]")
      ->option_text("N")
      ->check(CLI::Range(1u, 1024u));
  study
      ->add_option(
          "--limit", arguments.options.limit_s,
          fmt::format("seconds that a point may take, else it is stopped and counts as failed; 0: as "
                      "long\nas it takes [what the file says as limit_s, else {}]",
                      kUsualLimitS))
      ->option_text("SECONDS")
      ->check(CLI::Range(0.0, kMaxLimitS));
  study->add_flag("--list", arguments.list, "only say which points there are")->excludes(output);
  return study;
}

int carry_out_study(const StudyArguments& arguments) {
  const Result<Study> study = load_study(arguments.file);
  if (!study) refuse(kConfigStatus, study.error().text);
  if (arguments.list) {
    for (const StudyPoint& point : study->points) std::printf("%s\n", describe(point, study->varied).c_str());
    return 0;
  }
  if (arguments.options.folder.empty())
    refuse(kUsageStatus, "study: where do the results go? e.g. '-o results'; see 'braid study --help'");
  const Result<StudyPlan> plan = plan_study(*study);
  if (!plan) refuse(kConfigStatus, plan.error().text);
  const Result<int> status = carry_out(*study, *plan, arguments.options);
  if (!status) refuse(kCannotCreateStatus, status.error().text);
  return *status;
}

// Which running node a command is about.
struct NodeChoice {
  int cluster = -1;
  std::string service;
  int process = 0;
};

void add_options(CLI::App& command, NodeChoice& choice) {
  CLI::Option* const service =
      command.add_option("--service", choice.service, "the control socket of its braidd: a path, or @name")
          ->option_text("ADDRESS");
  CLI::Option* const process =
      command
          .add_option("--process", choice.process,
                      "an application process of it, where several runs have a cluster of that number")
          ->option_text("PID")
          ->excludes(service);
  command.add_option("--cluster", choice.cluster, "the number of a cluster that runs on this machine")
      ->option_text("K")
      ->check(CLI::Range(0, static_cast<int>(kMaxClusters) - 1))
      ->excludes(service)
      ->excludes(process);
}

// The address of its control socket.
std::string chosen(const NodeChoice& choice, const char* command) {
  if (!choice.service.empty()) return choice.service;
  if (choice.process <= 0 && choice.cluster < 0)
    refuse(kUsageStatus,
           fmt::format("{}: of which node? give --cluster K, --process PID or --service ADDRESS; see "
                       "'braid {} --help'",
                       command, command));
  const Result<std::string> told = choice.process > 0
                                       ? service_of_process(choice.process)
                                       : service_of_cluster(static_cast<unsigned>(choice.cluster));
  if (!told) refuse(kUsageStatus, told.error().text);
  return *told;
}

struct CounterArguments {
  NodeChoice node;
  bool all = false;
  double every_seconds = 0;
};

CLI::App* describe_counters(CLI::App& app, CounterArguments& arguments) {
  CLI::App* const counters = app.add_subcommand("counters", "Show a node's counters while it runs");
  add_options(*counters, arguments.node);
  counters->add_flag("--all", arguments.all, "also those that are zero");
  counters->add_option("--every", arguments.every_seconds, "again and again, until the node ends")
      ->option_text("SECONDS")
      ->check(CLI::Range(0.01, 86400.0));
  counters->formatter(std::make_shared<CommandFormatter>(
      "braid counters (--cluster K | --process PID | --service ADDRESS) [options]"));
  counters->footer(
      "Reading costs the node nothing: the counters lie in memory that it shares.\n"
      "\n"
      "Examples:\n"
      "  braid counters --cluster 0\n"
      "  braid counters --process $(pgrep -n jacobi)\n"
      "  braid counters --service @braidd-0 --every 1\n");
  return counters;
}

int show_counters(const CounterArguments& arguments) {
  const std::string service = chosen(arguments.node, "counters");
  for (bool first = true;; first = false) {
    const Result<std::vector<CounterValues>> proxies = read_counters(service);
    // Later on the node's end is what was waited for.
    if (!proxies && !first) return 0;
    if (!proxies) refuse(kLostDaemonStatus, proxies.error().text);
    std::fputs(render_counters(*proxies, arguments.all).c_str(), stdout);
    if (arguments.every_seconds <= 0) return 0;
    std::fputs("\n", stdout);
    std::fflush(stdout);
    ::usleep(static_cast<useconds_t>(std::min(arguments.every_seconds, 1000.0) * 1e6));
  }
}

struct ProxiesArguments {
  NodeChoice node;
  unsigned set = 0;
};

CLI::App* describe_proxies(CLI::App& app, ProxiesArguments& arguments) {
  CLI::App* const proxies =
      app.add_subcommand("proxies", "Show or change how many proxies of a running cluster are active");
  add_options(*proxies, arguments.node);
  proxies->add_option("--set", arguments.set, "let so many be active; 1 to what it was started with")
      ->option_text("N")
      ->check(CLI::Range(1u, proxy::kMaxProxies));
  proxies->formatter(std::make_shared<CommandFormatter>(
      "braid proxies (--cluster K | --process PID | --service ADDRESS) [--set N]"));
  proxies->footer(
      "What a proxy has under way it finishes; what comes after goes over those that are active. No message "
      "is\n"
      "lost, doubled or reordered. The others keep their sub-connections, sleep, and can be made active "
      "again.\n"
      "\n"
      "Examples:\n"
      "  braid proxies --cluster 0\n"
      "  braid proxies --cluster 0 --set 1\n");
  return proxies;
}

int show_proxies(const ProxiesArguments& arguments) {
  const Result<ActiveProxies> now =
      active_proxies(chosen(arguments.node, "proxies"),
                     arguments.set > 0 ? std::optional<unsigned>(arguments.set) : std::nullopt);
  if (!now) refuse(kLostDaemonStatus, now.error().text);
  std::printf("%u of %u proxies are active\n", now->active, now->all);
  return 0;
}

struct CalibrateArguments {
  std::string file = "modern.yaml";
  bool quick = false;
};

CLI::App* describe_calibrate(CLI::App& app, CalibrateArguments& arguments) {
  CLI::App* const calibrate = app.add_subcommand(
      "calibrate", "Measure what things cost on this machine, and write it as a model for 'braid sim'");
  calibrate->add_option("-o,--output", arguments.file, "the model's file; what is there is replaced")
      ->option_text("FILE [modern.yaml]");
  calibrate->add_flag("--quick", arguments.quick,
                      "fewer repetitions: to see that it works, not to believe it");
  calibrate->formatter(std::make_shared<CommandFormatter>("braid calibrate [options]"));
  calibrate->footer(
      "Times every stage on the production code, runs the programs beside this command alone and in "
      "simulation to price what each\n"
      "computes, and then foretells other runs of them. Takes a minute; other work on the machine spoils "
      "it.\n"
      "\n"
      "Status: 70: something could not be measured; 73: the file cannot be written.\n"
      "\n"
      "Examples:\n"
      "  braid calibrate -o mine.yaml\n"
      "  braid sim --model ./mine.yaml --clusters 8 --compute 2 water\n");
  return calibrate;
}

int calibrate_machine(const CalibrateArguments& arguments) {
  const Descriptor file = open_output("--output", arguments.file);
  const CalibrationOptions options{.folder = own_folder(), .quick = arguments.quick};
  const Progress tell = [](const std::string& what) {
    std::fprintf(stderr, "braid: %s ...\n", what.c_str());
  };
  const Result<Calibration> calibration = calibrate(options, tell);
  if (!calibration) refuse(kLostDaemonStatus, calibration.error().text);
  write_output("--output", arguments.file, file, render_model(*calibration, {}));
  const Result<std::vector<Prediction>> predicted =
      predict(options, *calibration, std::filesystem::absolute(arguments.file).string(), tell);
  if (!predicted) refuse(kLostDaemonStatus, predicted.error().text);
  std::vector<Prediction> predictions = leave_one_out(*calibration);
  predictions.insert(predictions.end(), predicted->begin(), predicted->end());
  write_output("--output", arguments.file, file, render_model(*calibration, predictions));
  std::printf("%s: the cost model of this machine, as of now\n", arguments.file.c_str());
  std::fputs(render_text(*calibration, predictions).c_str(), stdout);
  return 0;
}

std::set<std::string> names_of(const CLI::App& app) {
  std::set<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.insert(command->get_name());
  return names;
}

int main_of(int argc, char** argv) {
  CLI::App app(kAbout, "braid");
  app.set_version_flag("--version", std::string("braid ") + kVersion);
  app.require_subcommand(1);
  app.footer(kMainFooter);
  app.set_help_flag("-h,--help", "this text");

  RunArguments run_arguments;
  CLI::App* const run = describe_run(app, run_arguments);
  run->set_help_flag("-h,--help", "this text");
  RunArguments sim_arguments;
  CLI::App* const sim = describe_sim(app, sim_arguments);
  sim->set_help_flag("-h,--help", "this text");
  StudyArguments study_arguments;
  CLI::App* const study = describe_study(app, study_arguments);
  study->set_help_flag("-h,--help", "this text");
  CounterArguments counter_arguments;
  CLI::App* const counters = describe_counters(app, counter_arguments);
  ProxiesArguments proxies_arguments;
  CLI::App* const proxies = describe_proxies(app, proxies_arguments);
  CalibrateArguments calibrate_arguments;
  CLI::App* const calibrates = describe_calibrate(app, calibrate_arguments);
  CLI::App* const help = app.add_subcommand("help", "Explain a command: 'braid help run'");
  std::string topic;
  help->formatter(std::make_shared<CommandFormatter>("braid help [command]"));
  help->footer("");
  help->add_option("command", topic, "the command to explain");

  // Once a command is parsed, CLI11 gives that command's help for the whole's.
  const std::string main_help = app.help();
  if (argc == 1) {
    std::fputs(main_help.c_str(), stdout);
    return kUsageStatus;
  }
  if (argv[1][0] != '-' && !names_of(app).contains(argv[1])) {
    std::vector<std::string> known;
    for (const std::string& name : names_of(app)) known.push_back(name);
    const auto near = nearest(argv[1], known);
    refuse(kUsageStatus, fmt::format("there is no command '{}'{}; see 'braid --help'", argv[1],
                                     near ? "; did you mean '" + *near + "'?"
                                          : ". To run an application: braid run " + std::string(argv[1])));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* const asked = run->parsed()          ? run
                                  : sim->parsed()        ? sim
                                  : study->parsed()      ? study
                                  : counters->parsed()   ? counters
                                  : proxies->parsed()    ? proxies
                                  : calibrates->parsed() ? calibrates
                                  : help->parsed()       ? help
                                                         : &app;
    std::fputs(asked->help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion&) {
    std::printf("braid %s\n", kVersion);
    return 0;
  } catch (const CLI::ParseError& e) {
    refuse(kUsageStatus, fmt::format("{}; see 'braid {}--help'", e.what(),
                                     run->parsed()          ? "run "
                                     : sim->parsed()        ? "sim "
                                     : study->parsed()      ? "study "
                                     : counters->parsed()   ? "counters "
                                     : proxies->parsed()    ? "proxies "
                                     : calibrates->parsed() ? "calibrate "
                                                            : ""));
  }
  if (help->parsed()) {
    if (topic.empty()) {
      std::fputs(main_help.c_str(), stdout);
      return 0;
    }
    if (!names_of(app).contains(topic))
      refuse(kUsageStatus, fmt::format("help: there is no command '{}'; see 'braid --help'", topic));
    std::fputs(app.get_subcommand(topic)->help().c_str(), stdout);
    return 0;
  }
  if (counters->parsed()) return show_counters(counter_arguments);
  if (proxies->parsed()) return show_proxies(proxies_arguments);
  if (study->parsed()) return carry_out_study(study_arguments);
  if (calibrates->parsed()) return calibrate_machine(calibrate_arguments);
  if (sim->parsed()) return simulate_application(*sim, sim_arguments);
  return run_application(*run, run_arguments);
}

}  // namespace
}  // namespace braid::cli

int main(int argc, char** argv) {
  return braid::cli::main_of(argc, argv);
}
