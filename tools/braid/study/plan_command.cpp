#include "tools/braid/study/plan_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/json.h"
#include "base/limits.h"
#include "settings/document.h"
#include "settings/run_words.h"
#include "settings/words.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/command_line/settings_options.h"
#include "tools/braid/find_program.h"
#include "tools/braid/study/figures.h"
#include "tools/braid/study/sizing.h"
#include "tools/braid/study/study_folder.h"
#include "tools/braid/study/study_runner.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    "Simulates the program with one proxy for each cluster, and goes on in steps (a proxy, an NI, another dispatch) while a step gains\n"
    "more than --worth; so the recommendation comes with the price of one more and one less. Runs with equal seeds are\n"
    "compared, and intervals are those of the median over the seeds, with 95 %.\n"
    "\n"
    "The program must be built for simulation: one of the project's, or one built by 'braid-cc --simulated'. --from takes program\n"
    "and machine from the report of a live run ('braid run --report'); --app then names the build for simulation.\n"
    "\n"
    "The folder gets what a study's has, in steps/: the same command goes on where it was interrupted, and 'braid report' draws it.\n"
    "\n"
    "Status: 1: simulations failed; 64: wrong usage; 73: the folder cannot be written; 78: a wrong setting, model or report.\n"
    "\n"
    "Examples:\n"
    "  braid plan --app water --nodes 16 --cluster-size 4 -o out/plan\n"
    "  braid run --clusters 4 --compute 4 --report run.json water && braid plan --from run.json -o out/plan\n";

constexpr std::array kOwnKeys = {"clusters",
                                 "compute",
                                 "proxies",
                                 "nis",
                                 "dispatch",
                                 "faults.seed",
                                 "simulation.model",
                                 "simulation.mode",
                                 "simulation.message_bytes"};

struct Arguments {
  std::string app;
  std::string report;
  std::string model = "modern";
  std::string folder;
  std::string settings;
  unsigned nodes = 0;
  unsigned cluster_size = 0;
  unsigned seeds = 5;
  unsigned max_proxies = 0;
  unsigned max_nis = 4;
  unsigned jobs = 0;
  double worth = 3;
};

// What is planned for.
struct Program {
  std::string application;
  std::vector<std::string> arguments;
  unsigned clusters = 0;
  unsigned compute = 0;
  std::string live;  // what is known from a live run; empty: nothing
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Of a report of `braid run`; refuses what is none.
Program of_live_run(const std::string& path) {
  const Result<std::string> text = settings::read_text_file(path);
  if (!text) refuse(kConfigStatus, text.error().text);
  try {
    const Json report = Json::parse(*text);
    if (report.is_object() && report.contains("whole_cycles"))
      refuse(kConfigStatus,
             fmt::format("{}: is the report of a simulation; name one of 'braid run --report', or "
                         "the program and the machine: --app, --nodes and --cluster-size",
                         path));
    const Json& configuration = report.at("configuration");
    Program program;
    program.arguments = report.at("command").get<std::vector<std::string>>();
    if (program.arguments.empty())
      refuse(kConfigStatus,
             fmt::format("{}: its command is empty; let 'braid run --report' write it again", path));
    // The same program, if it is one of the project's, for simulation.
    program.application = program.arguments.front();
    program.arguments.erase(program.arguments.begin());
    const std::filesystem::path name = std::filesystem::path(program.application).filename();
    if (std::filesystem::exists(std::filesystem::path(simulated_applications()) / name))
      program.application = name;
    program.clusters = configuration.at("clusters").get<unsigned>();
    program.compute = configuration.at("compute").get<unsigned>();
    program.live =
        fmt::format("{}: {:.3f} s live; proxies of each cluster: {}\n", path,
                    report.at("wall_seconds").get<double>(), configuration.at("proxies").get<unsigned>());
    return program;
  } catch (const Json::exception&) {
    refuse(kConfigStatus,
           fmt::format("{}: is no report of 'braid run --report', or cut short; let it write one", path));
  }
}

Program program_of(const Arguments& arguments, const Given& given) {
  Program program;
  if (given.has("--from")) program = of_live_run(arguments.report);
  if (given.has("--app")) {
    if (arguments.app.find_first_of("'\"\\") != std::string::npos)
      refuse(
          kUsageStatus,
          "--app: quotes and backslashes mean nothing there, and words have no blanks; a live run's report "
          "(--from) has any words");
    std::vector<std::string> words = words_of(arguments.app);
    if (words.empty()) refuse(kUsageStatus, "--app: names no program");
    program.application = words.front();
    words.erase(words.begin());
    if (!words.empty() || !given.has("--from")) program.arguments = words;
  }
  if (program.application.empty())
    refuse(
        kUsageStatus,
        "plan: name a program with --app, or the report of a live run with --from; see 'braid plan --help'");
  if (given.has("--cluster-size")) program.compute = arguments.cluster_size;
  if (program.compute == 0)
    refuse(kUsageStatus, "plan: say how many compute nodes a cluster has with --cluster-size");
  if (given.has("--nodes")) {
    if (arguments.nodes % program.compute != 0)
      refuse(kUsageStatus, fmt::format("--nodes {}: is not a multiple of the {} nodes of a cluster",
                                       arguments.nodes, program.compute));
    program.clusters = arguments.nodes / program.compute;
  }
  if (program.clusters == 0)
    refuse(kUsageStatus, "plan: say how many compute nodes all clusters have together with --nodes");
  if (program.clusters > kMaxClusters)
    refuse(
        kUsageStatus,
        fmt::format("--nodes {}: are {} clusters of {}, and a machine has at most {}; take larger clusters",
                    program.clusters * program.compute, program.clusters, program.compute, kMaxClusters));
  if (program.clusters < 2)
    refuse(kUsageStatus,
           fmt::format("plan: the machine has {} cluster, and one needs no proxies; --nodes says how many "
                       "compute nodes all clusters have together",
                       program.clusters));
  return program;
}

class Planner {
 public:
  Planner(const Arguments& arguments, Program program)
      : arguments_(arguments),
        program_(std::move(program)),
        search_(arguments.max_proxies > 0 ? arguments.max_proxies : std::min(kMaxProxies, program_.compute),
                arguments.max_nis, arguments.worth / 100) {}

  int run() {
    do {
      for (std::vector<Sizing> wanted; !(wanted = search_.next()).empty();)
        if (const int status = simulate(wanted); status != 0) return status;
    } while (search_.step());
    // The folder's tables have all of them, and not the last step's alone.
    if (const int status = reports_in_folder(study_of(seen_)).status; status != 0) return status;
    print(recommendation());
    return 0;
  }

 private:
  Study study_of(const std::vector<Sizing>& sizings) const {
    Json sized = {{"proxies", Json::array()}, {"nis", Json::array()}, {"dispatch", Json::array()}};
    for (const Sizing& s : sizings) {
      sized["proxies"].push_back(s.proxies);
      sized["nis"].push_back(s.nis);
      sized["dispatch"].push_back(settings::word_of(s.dispatch));
    }
    Json seeds = Json::array();
    for (unsigned seed = 1; seed <= arguments_.seeds; ++seed) seeds.push_back(seed);
    // JSON is YAML.
    const Json text = {
        {"applications", {{{"application", program_.application}, {"arguments", program_.arguments}}}},
        {"base",
         {{"clusters", program_.clusters},
          {"compute", program_.compute},
          {"simulation", {{"model", arguments_.model}}}}},
        {"vary", {sized, {{"faults.seed", seeds}}}}};
    Result<Study> study = parse_study(text.dump(1), "braid plan");
    if (!study) refuse(kConfigStatus, study.error().text);
    for (StudyPoint& point : study->points) {
      for (const std::string& key :
           assign_settings(arguments_.settings, /*simulated=*/true, point.settings)) {
        if (std::find(kOwnKeys.begin(), kOwnKeys.end(), key) != kOwnKeys.end())
          refuse(kUsageStatus,
                 fmt::format("--set: '{}' is what 'braid plan' chooses, or has an option of its own", key));
      }
    }
    return *std::move(study);
  }

  StudyReports reports_in_folder(const Study& study) const {
    return reports_of(study,
                      {.folder = arguments_.folder + "/steps", .jobs = arguments_.jobs, .limit_s = {}});
  }

  // Returns the status of simulations that failed; 0: none did.
  int simulate(const std::vector<Sizing>& sizings) {
    const Study study = study_of(sizings);
    const StudyReports all = reports_in_folder(study);
    if (all.status != 0) return all.status;
    for (std::size_t i = 0; i < sizings.size(); ++i) {
      std::vector<double> times;
      for (unsigned seed = 0; seed < arguments_.seeds; ++seed)
        times.push_back(figure_of(all.reports[i * arguments_.seeds + seed], "parallel_cycles"));
      search_.look_at(sizings[i], std::move(times));
      seen_.push_back(sizings[i]);
    }
    return 0;
  }

  std::string change(const Sizing& sizing) const {
    const Spread s = search_.change_of(sizing);
    return fmt::format("{:+.1f} % [{:+.1f}, {:+.1f}]", 100 * s.median, 100 * s.low, 100 * s.high);
  }

  std::string recommendation() {
    const Sizing& choice = search_.choice();
    std::string text = program_.application;
    for (const std::string& word : program_.arguments) text += " " + word;
    text += fmt::format(": {} clusters of {} compute nodes, model {}, seeds 1 to {}\n", program_.clusters,
                        program_.compute, arguments_.model, arguments_.seeds);
    text += program_.live;
    text += fmt::format("Recommended for each cluster: {}.\n", choice.text());
    const auto tell = [&](const char* what, const Sizing& sizing) {
      if (std::find(seen_.begin(), seen_.end(), sizing) != seen_.end())
        text += fmt::format("{}: {} of time.\n", what, change(sizing));
    };
    if (choice.proxies > 2 || choice.nis > 1 || choice.dispatch != Sizing{}.dispatch)
      tell("With one proxy and the usual dispatch instead", Sizing{});
    tell("One proxy more", {choice.proxies + 1, choice.nis, choice.dispatch});
    if (choice.proxies > 1)
      tell("One proxy less", {choice.proxies - 1, std::min(choice.nis, choice.proxies - 1), choice.dispatch});
    tell("One NI more", {choice.proxies, choice.nis + 1, choice.dispatch});
    if (choice.nis > 1) tell("One NI less", {choice.proxies, choice.nis - 1, choice.dispatch});
    text +=
        "\n| each cluster has | Mcycles in parallel(): median [95 %] | against the recommendation: median [95 %] |\n|---|---|---|\n";
    std::sort(seen_.begin(), seen_.end());
    for (const Sizing& sizing : seen_) {
      const Spread s = spread_of(search_.times_of(sizing));
      text += fmt::format("| {} | {:.4g} [{:.4g}, {:.4g}] | {} |\n", sizing.text(), s.median * 1e-6,
                          s.low * 1e-6, s.high * 1e-6, sizing == choice ? "recommended" : change(sizing));
    }
    return text;
  }

  const Arguments& arguments_;
  const Program program_;
  SizingSearch search_;
  std::vector<Sizing> seen_;
};

int run_plan(const Arguments& arguments, const Given& given) {
  if (arguments.folder.empty())
    refuse(kUsageStatus,
           "plan: name a folder for the simulations, e.g. '-o out/plan'; see 'braid plan --help'");
  if (const Result<void> good = check_results_folder(arguments.folder); !good)
    refuse(kCannotCreateStatus, good.error().text);
  return Planner(arguments, program_of(arguments, given)).run();
}

}  // namespace

Subcommand plan_command() {
  const auto a = std::make_shared<Arguments>();
  return {
      .name = "plan",
      .about = "Recommend proxies, NIs and dispatch for a program, by simulations",
      .usage = "braid plan --app \"program arguments\" --nodes N --cluster-size M -o folder [options]",
      .footer = kFooter,
      .options =
          {{.names = "--app",
            .value_text = "\"PROGRAM ARGUMENTS\"",
            .help = "the program, built for simulation, and its arguments",
            .target = &a->app},
           {.names = "--from",
            .value_text = "FILE",
            .help = "take program, arguments and machine from the report of a live run; -: standard input",
            .target = &a->report},
           {.names = "--nodes",
            .value_text = "N",
            .help = "compute nodes of the whole machine",
            .target = NumberTarget<unsigned>{&a->nodes, 1, kMaxClusters * kMaxComputeNodes}},
           {.names = "--cluster-size",
            .value_text = "M",
            .help = "compute nodes of a cluster",
            .target = NumberTarget<unsigned>{&a->cluster_size, 1, kMaxComputeNodes}},
           {.names = "--model", .value_text = "NAME", .help = "the cost model [modern]", .target = &a->model},
           {.names = "--set",
            .value_text = "KEY=VALUE,...",
            .help = "any other settings of the simulations by their keys ('braid help settings')",
            .target = &a->settings},
           {.names = "--seeds",
            .value_text = "N",
            .help = "simulations of each machine, with the seeds 1 to N [5]",
            .target = NumberTarget<unsigned>{&a->seeds, 1, 1000}},
           {.names = "--worth",
            .value_text = "PERCENT",
            .help = "the least gain for which a cluster gets one proxy or NI more, or another dispatch [3]",
            .target = NumberTarget<double>{&a->worth, 0.1, 100}},
           {.names = "--max-proxies",
            .value_text = "N",
            .help = "the most proxies that a cluster can have [as many as compute nodes]",
            .target = NumberTarget<unsigned>{&a->max_proxies, 1, kMaxProxies}},
           {.names = "--max-nis",
            .value_text = "N",
            .help = "the most NIs that a cluster can have [4]",
            .target = NumberTarget<unsigned>{&a->max_nis, 1, kMaxNis}},
           {.names = "-o,--output",
            .value_text = "FOLDER",
            .help = "the simulations' folder; made if it is missing",
            .target = &a->folder},
           {.names = "--jobs",
            .value_text = "N",
            .help = "simulations at a time [one for each processor]",
            .target = NumberTarget<unsigned>{&a->jobs, 1, 1024}}},
      .run = [a](const Given& given) { return run_plan(*a, given); }};
}

}  // namespace braid::cli
