#include "tools/braid/command_line/settings_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace braid::cli {
namespace {

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

const char* group_of(const Setting& setting) {
  const std::string& key = setting.key;
  if (key.starts_with("faults.")) return "Faults on the wire, injected where frames arrive";
  if (key.starts_with("transport.")) return "Transport";
  if (key.starts_with("dpdk.")) return "DPDK";
  if (key.starts_with("capture.")) return "Capture";
  if (key.starts_with("simulation.")) return "Simulation";
  return "Machine";
}

// Alone it means true; --misdirect=false takes back what a file says.
bool is_flag(const Setting& setting) {
  return setting.allowed == "true, false";
}

}  // namespace

std::vector<Option> SettingsOptions::files() {
  return {{.names = "--config",
           .value_text = "FILE",
           .help = "settings from a YAML file, e.g. one of configs/",
           .target = &config_file_},
          {.names = "--report",
           .value_text = "FILE",
           .help = "write everything that is known of the run at its end, as JSON",
           .target = &report_file_}};
}

std::vector<Option> SettingsOptions::settings() {
  std::vector<Option> options;
  for (const Setting& setting : cli::settings()) {
    if (setting.option.empty() || !is_of(setting.key, simulated_)) continue;
    Option option{.names = setting.option,
                  .value_text = "(" + setting.allowed + ")",
                  .help = wrapped(fmt::format("{} [{}]", setting.help, default_text(setting))),
                  .target = &texts_[setting.key],
                  .group = group_of(setting)};
    if (is_flag(setting)) {
      option.value_text.clear();
      option.target = &flags_[setting.key];
    }
    options.push_back(std::move(option));
  }
  return options;
}

RunConfig SettingsOptions::configure(const Given& given, ConfigBuilder& builder) const {
  if (!config_file_.empty()) {
    if (const Result<void> done = builder.load_file(config_file_); !done)
      refuse(kConfigStatus, done.error().text);
  }
  for (const Setting& setting : cli::settings()) {
    if (setting.option.empty() || !is_of(setting.key, simulated_) || !given.has(setting.option)) continue;
    const std::string text = !is_flag(setting)        ? texts_.at(setting.key)
                             : flags_.at(setting.key) ? "true"
                                                      : "false";
    if (const Result<void> done = builder.set_option(setting, text); !done)
      refuse(kUsageStatus, done.error().text);
  }
  const Result<RunConfig> config = builder.finish();
  if (!config) refuse(kConfigStatus, config.error().text);
  return *config;
}

}  // namespace braid::cli
