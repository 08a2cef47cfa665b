#include "tools/braid/study/fit_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string_view>

#include "base/json.h"
#include "settings/document.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/find_program.h"
#include "tools/braid/simulate/simulate.h"
#include "tools/braid/study/figures.h"
#include "tools/braid/study/fit.h"
#include "tools/braid/study/study_folder.h"
#include "tools/braid/study/study_results.h"
#include "tools/braid/study/study_runner.h"

namespace braid::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFooter =
    "The targets' file names a model, at most three numbers of it, and for each number a figure with its value; the figures are those\n"
    "of a study whose clusters have one compute node. The search is deterministic. The folder gets the model (NAME.yaml, with every\n"
    "round of the search in its comments), all simulations, and predicted/, the results of the study that the fit did not look at.\n"
    "\n"
    "Status: 0; 1: some simulations failed, or the best round misses a target by more than the tolerance; 78: wrong targets.\n"
    "\n"
    "Example: docs/OPERATIONS.md, Fits.\n";

struct Arguments {
  std::string file;
  std::string folder;
  unsigned jobs = 0;
};

// What ends the command.
struct Ended {
  int status;
};

class Fit {
 public:
  Fit(const Arguments& arguments, FitConfig config)
      : arguments_(arguments),
        config_(std::move(config)),
        model_path_(taken(find_model(config_.model, models_folder()))) {}

  int run() {
    model_ = taken(settings::CostModel::load(model_path_));
    study_ = taken(load_study(beside(config_.study)));
    check_study();
    if (!config_.predict.empty()) {  // before what takes long
      predicted_ = taken(load_study(beside(config_.predict)));
      check_simulated_only(*predicted_);
    }
    FitSearch search(config_, start());
    print_head();
    while (!search.is_over()) {
      search.look_at(figures_with(search.numbers()));
      print_round(search);
    }
    const std::string model = arguments_.folder + "/" + config_.name + ".yaml";
    const std::string text = taken(settings::read_text_file(model_path_));
    const std::string frozen =
        taken(frozen_model(config_, search.numbers(), transport(), text, *model_, log_ + verdict(search)));
    if (const Result<void> written = write_file(model, frozen); !written)
      refuse(kCannotCreateStatus, written.error().text);
    print(verdict(search));
    print(fmt::format("{}: frozen\n", model));
    const int status = config_.predict.empty() ? 0 : predict(model);
    return status != 0 ? status : search.has_met() ? 0 : 1;
  }

 private:
  template <class T>
  static T taken(Result<T> result) {
    if (!result) refuse(kConfigStatus, result.error().text);
    return std::move(result).value();
  }

  // A file that the targets name is beside them, unless it is an absolute path.
  std::string beside(const std::string& name) const {
    return std::filesystem::path(arguments_.file).parent_path() / name;
  }

  // A fit that has seen larger clusters predicts nothing about them.
  void check_study() const {
    check_simulated_only(*study_);
    for (const StudyPoint& point : study_->points) {
      const settings::RunConfig c = point.settings.unchecked();
      if (c.compute != 1 || c.proxies != 1)
        refuse(kConfigStatus,
               fmt::format("{}: has a point with clusters of {} compute nodes and {} proxies; a fit is to "
                           "clusters of one, with one proxy, so that all others are predictions",
                           beside(config_.study), c.compute, c.proxies));
      if (c.simulation.mode != settings::Mode::kReal)
        refuse(
            kConfigStatus,
            fmt::format("{}: has a point with simulation.mode {}; a fit is to messages of proxies: mode real",
                        beside(config_.study), settings::word_of(c.simulation.mode)));
      for (const FitNumber& n : config_.fit)
        for (const std::string& cost : costs_of(n.number))
          if (const auto given = point.settings.given().find("cycles." + cost);
              given != point.settings.given().end())
            refuse(kConfigStatus, fmt::format("{} is fitted ('{}'); remove it there, or do not fit it",
                                              given->second, n.number));
    }
    for (const std::string& key : study_->varied)
      if (key.starts_with("transport."))
        refuse(kConfigStatus,
               fmt::format("{}: varies {}; a fit is to one machine", beside(config_.study), key));
  }

  static void check_simulated_only(const Study& study) {
    if (study.live)
      refuse(kConfigStatus,
             fmt::format("{}: key 'engine': live runs have no part in a fit; remove it", study.file));
  }

  // What the study gives to its simulations' transport is a part of the machine that is fitted.
  std::map<std::string, std::string> transport() const {
    constexpr std::string_view kSection = "transport.";
    std::map<std::string, std::string> all;
    const auto& settings = study_->points.front().settings;
    for (const auto& [key, place] : settings.given())
      if (key.starts_with(kSection))
        all[key.substr(kSection.size())] =
            settings::text_of(settings::kRunSchema, &settings.unchecked(), key);
    return all;
  }

  std::vector<double> start() const {
    std::vector<double> numbers;
    for (const FitNumber& n : config_.fit) {
      double number = n.start;
      if (number == 0) number = n.number == "stages" ? 1 : cost_with(config_, {}, n.number, *model_);
      numbers.push_back(number);
    }
    return numbers;
  }

  void set_costs(Study& study, const std::vector<double>& numbers) const {
    for (StudyPoint& point : study.points) {
      const auto set = [&](const std::string& key, const std::string& value) {
        if (const Result<void> done = point.settings.set(key, value, "braid fit: " + key + ":"); !done)
          refuse(kConfigStatus, done.error().text);
      };
      set("simulation.model", model_path_);
      for (const FitNumber& n : config_.fit)
        for (const std::string& cost : costs_of(n.number))
          set("cycles." + cost, settings::text_of_number(cost_with(config_, numbers, cost, *model_)));
    }
  }

  std::vector<OrderedJson> reports_in(const Study& study, const std::string& folder) const {
    StudyReports all = reports_of(study, {.folder = folder, .jobs = arguments_.jobs, .limit_s = {}});
    if (all.status != 0) throw Ended{all.status};
    return std::move(all.reports);
  }

  std::vector<double> figures_with(const std::vector<double>& numbers) const {
    Study study = *study_;
    set_costs(study, numbers);
    const std::vector<OrderedJson> reports = reports_in(study, arguments_.folder + "/fitted");
    std::vector<double> figures;
    for (const FitNumber& n : config_.fit) {
      std::vector<double> samples;
      for (const OrderedJson& report : reports) samples.push_back(figure_of(report, n.target));
      figures.push_back(spread_of(std::move(samples)).median);
    }
    return figures;
  }

  // --- Output: what is printed during the search stands in the model as well.

  void say(const std::string& text) {
    log_ += text;
    print(text);
  }

  void print_head() {
    say(fmt::format(
        "# Made by `braid fit {}` from {}. Fitted, to medians over {} simulations of clusters with one compute node:\n",
        arguments_.file, config_.model, study_->points.size()));
    for (const FitNumber& n : config_.fit)
      say(fmt::format("#   {:<12} so that {} is {} ({}); between {} and {}\n", n.number, n.target, n.value,
                      n.source, n.least, n.most));
    std::string line = "# Every round of the search:\n#   round";
    for (const FitNumber& n : config_.fit) line += fmt::format("  {:>12}  {:>16}", n.number, n.target);
    say(line + "\n");
  }

  void print_round(const FitSearch& search) {
    const FitSearch::Round& round = search.rounds().back();
    std::string line = fmt::format("#   {:>5}", search.rounds().size());
    for (std::size_t i = 0; i < round.numbers.size(); ++i)
      line += fmt::format("  {:>12.5g}  {:>16.5g}", round.numbers[i], round.figures[i]);
    say(line + "\n");
  }

  std::string verdict(const FitSearch& search) const {
    return fmt::format("# Taken: round {}{}.\n", search.best() + 1,
                       search.has_met() ? "" : ", which misses a target by more than the tolerance");
  }

  // --- The prediction

  int predict(const std::string& model) const {
    Study study = *predicted_;
    for (StudyPoint& point : study.points)
      if (const Result<void> done = point.settings.set("simulation.model", model, "braid fit: model:"); !done)
        refuse(kConfigStatus, done.error().text);
    const std::string folder = arguments_.folder + "/predicted";
    const std::vector<OrderedJson> reports = reports_in(study, folder);
    print(predictions(study, reports));
    return 0;
  }

  // Points that differ in their seeds only are samples of one thing.
  static std::string predictions(const Study& study, const std::vector<OrderedJson>& reports) {
    std::vector<std::string> varied;
    for (const std::string& key : study.varied)
      if (key != "faults.seed") varied.push_back(key);
    std::vector<std::string> order;
    std::map<std::string, std::vector<std::size_t>> samples;
    for (std::size_t i = 0; i < study.points.size(); ++i) {
      const std::string name = describe(study.points[i], varied);
      if (!samples.contains(name)) order.push_back(name);
      samples[name].push_back(i);
    }
    std::string text =
        "| predicted: median [95 % of it] | message time | idle | waiting | queue | utilisation | Mcycles |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const std::string& name : order) {
      text += fmt::format("| {} ({} seeds)", name, samples[name].size());
      for (const auto& [figure, scale, digits] : {std::tuple{"message_cycles", 1.0, 0},
                                                  {"idle_cycles", 1.0, 0},
                                                  {"waiting_cycles", 1.0, 0},
                                                  {"queue", 1.0, 3},
                                                  {"utilisation", 1.0, 3},
                                                  {"parallel_cycles", 1e-6, 2}}) {
        std::vector<double> values;
        for (const std::size_t i : samples[name]) values.push_back(figure_of(reports[i], figure) * scale);
        const Spread s = spread_of(std::move(values));
        text += fmt::format(" | {:.{}f} [{:.{}f}, {:.{}f}]", s.median, digits, s.low, digits, s.high, digits);
      }
      text += " |\n";
    }
    return text;
  }

  const Arguments& arguments_;
  const FitConfig config_;
  const std::string model_path_;
  std::optional<settings::CostModel> model_;
  std::optional<Study> study_;
  std::optional<Study> predicted_;  // none: nothing is
  std::string log_;
};

int run_fit(const Arguments& arguments) {
  if (arguments.folder.empty())
    refuse(kUsageStatus, "fit: name a folder for the results, e.g. '-o out/fit'; see 'braid fit --help'");
  if (const Result<void> good = check_results_folder(arguments.folder); !good)
    refuse(kCannotCreateStatus, good.error().text);
  Result<FitConfig> config = load_fit(arguments.file);
  if (!config) refuse(kConfigStatus, config.error().text);
  try {
    return Fit(arguments, *std::move(config)).run();
  } catch (const Ended& ended) {
    return ended.status;
  }
}

}  // namespace

Subcommand fit_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {
      .name = "fit",
      .about = "Fit numbers of a cost model to figures of clusters with one compute node, and predict others",
      .usage = "braid fit targets.yaml -o folder [options]",
      .footer = kFooter,
      .options = {{.names = "file",
                   .value_text = "FILE",
                   .help = "what is fitted to what; -: standard input, beside the files of this folder",
                   .target = &arguments->file},
                  {.names = "-o,--output",
                   .value_text = "FOLDER",
                   .help = "the results' folder; made if it is missing",
                   .target = &arguments->folder},
                  {.names = "--jobs",
                   .value_text = "N",
                   .help = "simulations at a time [one for each processor]",
                   .target = NumberTarget<unsigned>{&arguments->jobs, 1, 1024}}},
      .run = [arguments](const Given&) { return run_fit(*arguments); }};
}

}  // namespace braid::cli
