// Common to `braid run` and `braid sim`: a file of settings, the settings as options, and a report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "settings/reader.h"
#include "settings/run.h"
#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

// --set: "engine.fetch_ahead=0,cycles.unit=5", settings of a file by their keys, of live or of simulated runs. An error ends the
// command (refuse()). Returns the keys.
std::vector<std::string> assign_settings(const std::string& assignments, bool simulated,
                                         settings::Collector<settings::RunConfig>& builder);

class SettingsOptions {
 public:
  // The settings of live or of simulated runs.
  explicit SettingsOptions(bool simulated) : simulated_(simulated) {}

  // Declares --config, --set and --report, and an option per setting. The options point into this object.
  std::vector<Option> files();
  std::vector<Option> settings();

  // Reads the file, then --set, then the options, of which each takes precedence; afterwards `builder`
  // knows which settings were given. What must hold between them is not checked: in simulations that is known with the
  // model (simulate.h). An error ends the command (refuse()).
  void read(const Given& given, settings::Collector<settings::RunConfig>& builder) const;
  // The same for live runs, and checks them.
  settings::RunConfig configure(const Given& given, settings::Collector<settings::RunConfig>& builder) const;

  const std::string& report_file() const { return report_file_; }

 private:
  const bool simulated_;
  std::string config_file_;
  std::string report_file_;
  std::string assignments_;
  std::map<std::string, std::string> texts_;  // by key of the setting
  std::map<std::string, bool> flags_;
};

}  // namespace braid::cli
