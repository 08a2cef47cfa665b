#include "tools/braid/calibrate/calibrate_command.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "tools/braid/calibrate/calibrate.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/find_program.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "Measures every stage of the production code, runs the programs beside this command alone and in simulation to price\n"
    "their computing, and then predicts other runs of them and prints the errors. It takes about a minute; other processes\n"
    "disturb it.\n"
    "\n"
    "Status: 64: wrong usage; 70: a measurement failed; 73: the file cannot be written.\n"
    "\n"
    "Examples:\n"
    "  braid calibrate -o mine.yaml\n"
    "  braid sim --model ./mine.yaml --clusters 8 --compute 2 water\n";

struct Arguments {
  std::string file = "modern.yaml";
  bool quick = false;
};

int calibrate_machine(const Arguments& arguments) {
  OutputFileOption file("--output", arguments.file);
  const CalibrationOptions options{.folder = own_folder(), .quick = arguments.quick};
  const Progress tell = [](const std::string& what) {
    std::fprintf(stderr, "braid: %s ...\n", what.c_str());
  };
  const Result<Calibration> calibration = calibrate(options, tell);
  if (!calibration) refuse(kLostDaemonStatus, calibration.error().text);
  file.write(render_model(*calibration, {}));
  const Result<std::vector<Prediction>> predicted =
      predict(options, *calibration, std::filesystem::absolute(arguments.file).string(), tell);
  if (!predicted) refuse(kLostDaemonStatus, predicted.error().text);
  std::vector<Prediction> predictions = leave_one_out(*calibration);
  predictions.insert(predictions.end(), predicted->begin(), predicted->end());
  file.write(render_model(*calibration, predictions));
  file.close();
  print(fmt::format("{}: the cost model of this machine\n{}", arguments.file,
                    render_text(*calibration, predictions)));
  return 0;
}

}  // namespace

Subcommand calibrate_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "calibrate",
          .about = "Measure the costs of this machine, and write them as a model for 'braid sim'",
          .usage = "braid calibrate [options]",
          .footer = kFooter,
          .options = {{.names = "-o,--output",
                       .value_text = "FILE [modern.yaml]",
                       .help = "the model's file; an existing file is replaced",
                       .target = &arguments->file},
                      {.names = "--quick",
                       .help = "fewer repetitions, to test that it works; the figures are not reliable",
                       .target = &arguments->quick}},
          .run = [arguments](const Given&) { return calibrate_machine(*arguments); }};
}

}  // namespace braid::cli
