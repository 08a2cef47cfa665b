#include "tools/braid/calibrate/calibrate_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "tools/braid/calibrate/calibrate.h"
#include "tools/braid/command_line/output_file.h"
#include "tools/braid/find_program.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "Times every stage on the production code, runs the programs beside this command alone and in "
    "simulation to price what each\n"
    "computes, and then foretells other runs of them. Takes a minute; other work on the machine disturbs "
    "it.\n"
    "\n"
    "Status: 70: something could not be measured; 73: the file cannot be written.\n"
    "\n"
    "Examples:\n"
    "  braid calibrate -o mine.yaml\n"
    "  braid sim --model ./mine.yaml --clusters 8 --compute 2 water\n";

struct Arguments {
  std::string file = "modern.yaml";
  bool quick = false;
};

int calibrate_machine(const Arguments& arguments) {
  const OutputFile file("--output", arguments.file);
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
  std::printf("%s: the cost model of this machine, as of now\n", arguments.file.c_str());
  std::fputs(render_text(*calibration, predictions).c_str(), stdout);
  return 0;
}

}  // namespace

Subcommand calibrate_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "calibrate",
          .about = "Measure what things cost on this machine, and write it as a model for 'braid sim'",
          .usage = "braid calibrate [options]",
          .footer = kFooter,
          .options = {{.names = "-o,--output",
                       .value_text = "FILE [modern.yaml]",
                       .help = "the model's file; what is there is replaced",
                       .target = &arguments->file},
                      {.names = "--quick",
                       .help = "fewer repetitions: to see that it works, not to believe it",
                       .target = &arguments->quick}},
          .run = [arguments](const Given&) { return calibrate_machine(*arguments); }};
}

}  // namespace braid::cli
