// What `braid run` and `braid sim` have in common: a file of settings, the settings as options, and a report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "settings/reader.h"
#include "settings/run.h"
#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

class SettingsOptions {
 public:
  // Settings are of live runs or of simulated ones.
  explicit SettingsOptions(bool simulated) : simulated_(simulated) {}

  // --config and --report, and an option for each setting. They point into this object.
  std::vector<Option> files();
  std::vector<Option> settings();

  // From the file and then from the options, which win; `builder` knows afterwards what was given. What is
  // wrong ends the command (refuse()).
  settings::RunConfig configure(const Given& given, settings::Collector<settings::RunConfig>& builder) const;

  const std::string& report_file() const { return report_file_; }

 private:
  const bool simulated_;
  std::string config_file_;
  std::string report_file_;
  std::map<std::string, std::string> texts_;  // by key of the setting
  std::map<std::string, bool> flags_;
};

}  // namespace braid::cli
