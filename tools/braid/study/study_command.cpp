#include "tools/braid/study/study_command.h"

#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/run/host_options.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/study/study.h"
#include "tools/braid/study/study_folder.h"
#include "tools/braid/study/study_runner.h"
#include "tools/braid/study/task_runner.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "The file names applications, settings of all points, axes along which settings vary, and conditions for combinations;\n"
    "configs/study-*.yaml are examples. Every point is one run of 'braid sim', on one processor.\n"
    "\n"
    "The folder gets points.csv (a row for each point), queues.csv (each proxy's queue over time), mva.csv (what mean value\n"
    "analysis predicts of messages, where a point was also run without contention), study.json (the reports of all\n"
    "points), and in points/ each point's settings, the output of its programs, and its result. A result is identified by everything\n"
    "that determines it, programs and model included: after an interruption or a change of the study, only the missing points\n"
    "run.\n"
    "\n"
    "With --on slurm the points are tasks of a job array, with --on parallel GNU parallel runs them, on --hosts by ssh or here. The\n"
    "folder, this braid and the programs must be at the same paths on all hosts; tasks/ in the folder has what each task said. The\n"
    "tables are the same bytes, wherever points ran. Ctrl-C cancels the tasks.\n"
    "\n"
    "With 'engine: live' in the file each point also runs on this host ('braid run'), 'repetitions' times, in turn with the others and\n"
    "alone: live.csv has each run, live_medians.csv the medians beside the prediction. A point has as many threads as compute nodes\n"
    "and proxies; where processors do not suffice it is refused, or with --oversubscribe run and marked so. A machine that no host\n"
    "is (modes without delay or contention, incidents, constants of the page engine) is only simulated. Not with --on.\n"
    "\n"
    "Status: 1: points failed (their commands are printed) or were refused; 64: wrong usage; 73: the folder cannot be written, or no tasks can be started; 78: wrong study;\n"
    "128 + n: ended by signal n.\n"
    "\n"
    "Examples:\n"
    "  braid study configs/study-small.yaml -o /tmp/small\n"
    "  braid study configs/study-water.yaml -o water --jobs 2 && braid study table water\n"
    "  braid study configs/study-matrix.yaml -o matrix --list\n"
    "  braid study configs/study-matrix.yaml -o matrix --on slurm --sbatch \"--time=120\"\n"
    "  braid study configs/study-matrix.yaml -o matrix --on parallel --hosts node1:16,node2:16\n"
    "  braid study configs/study-live.yaml -o live --oversubscribe && braid report live -o live.html\n";

struct Arguments {
  HostOptions host_options;
  std::string on = "local";
  std::string sbatch;
  bool task = false;
  std::string file;
  std::string folder;
  unsigned jobs = 0;
  double limit_s = 0;
  bool list = false;
  bool oversubscribe = false;
};

// Null: points run here.
std::shared_ptr<TaskLauncher> launcher_of(const Arguments& arguments, const Given& given) {
  const std::string& on = arguments.on;
  if (on != "local" && on != "slurm" && on != "parallel")
    refuse(kUsageStatus, fmt::format("--on {}: allowed: local, slurm, parallel", on));
  for (const char* const option : {"--hosts", "--hostfile", "--ssh"})
    if (on != "parallel" && given.has(option))
      refuse(kUsageStatus, fmt::format("{} is of --on parallel", option));
  if (on != "slurm" && given.has("--sbatch")) refuse(kUsageStatus, "--sbatch is of --on slurm");
  if (on == "slurm") return slurm_tasks(arguments.jobs, words_of(arguments.sbatch));
  if (on == "local") return nullptr;
  std::vector<Host> hosts;
  if (given.has("--hosts") || given.has("--hostfile")) hosts = arguments.host_options.hosts(given);
  return parallel_tasks(arguments.jobs, std::move(hosts), arguments.host_options.ssh_words());
}

int run_study(const Arguments& arguments, const Given& given) {
  if (arguments.task) return run_task(arguments.file);
  const std::shared_ptr<TaskLauncher> launcher = launcher_of(arguments, given);
  const Result<Study> study = load_study(arguments.file);
  if (!study) refuse(kConfigStatus, study.error().text);
  if (arguments.folder.empty() && !arguments.list)
    refuse(kUsageStatus, "study: name a folder for the results, e.g. '-o results'; see 'braid study --help'");
  if (const Result<void> good = check_results_folder(arguments.folder); !good)
    refuse(kCannotCreateStatus, good.error().text);
  if (arguments.oversubscribe && !study->live)
    refuse(kUsageStatus,
           fmt::format("--oversubscribe: is for live runs, and {} has no 'engine: live'", study->file));
  if (launcher && study->live)
    refuse(
        kUsageStatus,
        fmt::format(
            "--on {}: {} has 'engine: live', and live runs are timed alone on this host: leave --on out, or set "
            "'engine: sim'",
            arguments.on, study->file));
  const Result<StudyPlan> plan = plan_study(*study, arguments.oversubscribe);
  if (!plan) refuse(kConfigStatus, plan.error().text);
  StudyOptions options{
      .folder = arguments.folder, .jobs = arguments.jobs, .limit_s = {}, .launcher = launcher};
  if (given.has("--limit")) options.limit_s = arguments.limit_s;
  if (arguments.list) {
    list_points(*study, *plan, options);
    return 0;
  }
  const Result<int> status = carry_out(*study, *plan, options);
  if (!status) refuse(kCannotCreateStatus, status.error().text);
  return *status;
}

}  // namespace

Subcommand study_command() {
  const auto arguments = std::make_shared<Arguments>();
  Subcommand command = {
      .name = "study",
      .about =
          "Simulate all combinations of some settings, also run them here, and put the figures in tables",
      .usage =
          "braid study file.yaml -o folder [options]\n       braid study table folder [options of 'braid study table --help']",
      .footer = kFooter,
      .options =
          {{.names = "file",
            .value_text = "FILE",
            .help = "what to vary; -: standard input",
            .target = &arguments->file},
           {.names = "-o,--output",
            .value_text = "FOLDER",
            .help = "the results' folder; made if it is missing",
            .target = &arguments->folder},
           {.names = "--jobs",
            .value_text = "N",
            .help =
                "points at a time [one for each processor]; slurm: tasks at a time [as many as\nSlurm likes]; parallel: on each host [its slots]",
            .target = NumberTarget<unsigned>{&arguments->jobs, 1, 1024}},
           {.names = "--limit",
            .value_text = "SECONDS",
            .help = fmt::format("seconds after which a point is stopped and counts as failed; 0: no\n"
                                "limit [limit_s of the file, else {}]",
                                kUsualLimitS),
            .target = NumberTarget<double>{&arguments->limit_s, 0, kMaxLimitS}},
           {.names = "--list",
            .help = "only list the points, with -o those that are left, and about how long they take",
            .target = &arguments->list},
           {.names = "--oversubscribe",
            .help = "live runs: also points with more threads than there are processors, marked so",
            .target = &arguments->oversubscribe}},
      .run = [arguments](const Given& given) { return run_study(*arguments, given); }};
  std::vector<Option> elsewhere = {
      {.names = "--on",
       .value_text = "local|slurm|parallel",
       .help = "where points run: here, as tasks of a Slurm job array, or by GNU parallel [local]",
       .target = &arguments->on},
      {.names = "--sbatch",
       .value_text = "OPTIONS",
       .help = "slurm: options for sbatch, \"--partition=short --time=30\"",
       .target = &arguments->sbatch}};
  for (Option& option : arguments->host_options.options()) {
    if (option.names == "--hosts")
      option.help = "parallel: on these hosts, as many points at a time on each as it has slots [1]";
    if (option.names == "--hosts" || option.names == "--hostfile" || option.names == "--ssh")
      elsewhere.push_back(std::move(option));
  }
  elsewhere.push_back({.names = "--task",
                       .help = "FILE is a task in a study's folder: what Slurm and GNU parallel start",
                       .target = &arguments->task});
  for (Option& option : elsewhere) {
    option.group = "Elsewhere";
    command.options.push_back(std::move(option));
  }
  return command;
}

}  // namespace braid::cli
