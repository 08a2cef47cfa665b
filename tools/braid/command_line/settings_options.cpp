#include "tools/braid/command_line/settings_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "base/check.h"
#include "settings/text.h"
#include "settings/value.h"
#include "settings/views/yaml.h"

namespace braid::cli {
namespace {

using settings::Listed;
using settings::Setting;

// Breaks `text` into lines that fit beside the options.
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

std::string default_text(const std::string& key) {
  const settings::RunConfig defaults;
  const std::string text = settings::text_of(settings::kRunSchema, &defaults, key);
  return text.empty() ? "none" : text;
}

// --misdirect means true; --misdirect=false overrides true in a file.
bool is_flag(const Setting& setting) {
  return setting.kind == settings::Kind::kTruth;
}

// Nothing is ignored without a word.
void tell_of_idle_settings(const settings::Collector<settings::RunConfig>& builder) {
  const settings::RunConfig defaults;
  const settings::Mode mode = builder.unchecked().simulation.mode;
  for (const auto& [key, place] : builder.given()) {
    if (settings::find_setting(settings::kRunSchema, key) == nullptr) continue;
    const bool is_live = !settings::shapes(key, true);
    if (!is_live && settings::acts_in(key, mode)) continue;
    if (settings::text_of(settings::kRunSchema, &builder.unchecked(), key) ==
        settings::text_of(settings::kRunSchema, &defaults, key))
      continue;
    fmt::print(stderr, "braid: {} has no effect {}\n", place,
               is_live ? "in simulated runs" : fmt::format("in mode {}", settings::word_of(mode)));
  }
}

// The settings of live or of simulated runs that have an option.
std::vector<Listed> with_options(bool simulated) {
  std::vector<Listed> all;
  for (const Listed& listed : settings::all_settings(settings::kRunSchema))
    if (!listed.setting->option.empty() && settings::shapes(listed.key, simulated)) all.push_back(listed);
  return all;
}

}  // namespace

std::vector<Option> SettingsOptions::files() {
  return {
      {.names = "--config",
       .value_text = "FILE",
       .help = "settings from a YAML file, e.g. one of configs/",
       .target = &config_file_},
      {.names = "--set",
       .value_text = "KEY=VALUE,...",
       .help =
           "settings by the keys that they have in a file, e.g. transport.ack_every=4; win over the file\n"
           "('braid help settings')",
       .target = &assignments_},
      {.names = "--report",
       .value_text = "FILE",
       .help = "write a full report of the run at its end, as JSON",
       .target = &report_file_}};
}

std::vector<Option> SettingsOptions::settings() {
  std::vector<Option> options;
  for (const Listed& listed : with_options(simulated_)) {
    const Setting& setting = *listed.setting;
    Option option{.names = std::string(setting.option),
                  .value_text = "(" + settings::allowed(setting) + ")",
                  .help = wrapped(fmt::format("{} [{}]", setting.help, default_text(listed.key))),
                  .target = &texts_[listed.key],
                  .group = std::string(listed.section == nullptr ? "Machine" : listed.section->title)};
    if (is_flag(setting)) {
      option.value_text.clear();
      option.target = &flags_[listed.key];
    }
    options.push_back(std::move(option));
  }
  return options;
}

std::vector<std::string> assign_settings(const std::string& assignments, bool simulated,
                                         settings::Collector<settings::RunConfig>& builder) {
  std::vector<std::string> keys;
  std::istringstream list(assignments);
  for (std::string assignment; std::getline(list, assignment, ',');) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      refuse(kUsageStatus, fmt::format("--set: '{}' is not KEY=VALUE", assignment));
    const std::string key = assignment.substr(0, equals);
    std::vector<std::string> known;
    for (const Listed& listed : settings::all_settings(settings::kRunSchema)) known.push_back(listed.key);
    if (settings::find_setting(settings::kRunSchema, key) == nullptr)
      refuse(kUsageStatus, fmt::format("--set: '{}' {}", key, settings::not_known(key, known)));
    if (!settings::shapes(key, simulated))
      refuse(kUsageStatus, fmt::format("--set: '{}' has no effect in {} runs; remove it", key,
                                       simulated ? "simulated" : "live"));
    if (const Result<void> done = builder.set(key, assignment.substr(equals + 1), "--set " + key + ":");
        !done)
      refuse(kUsageStatus, done.error().text);
    keys.push_back(key);
  }
  return keys;
}

void SettingsOptions::read(const Given& given, settings::Collector<settings::RunConfig>& builder) const {
  if (!config_file_.empty()) {
    if (const Result<void> done = settings::load_yaml_file(builder, config_file_); !done)
      refuse(kConfigStatus, done.error().text);
  }
  if (!assignments_.empty()) (void)assign_settings(assignments_, simulated_, builder);
  for (const Listed& listed : with_options(simulated_)) {
    const std::string option(listed.setting->option);
    if (!given.has(option)) continue;
    const std::string text = !is_flag(*listed.setting) ? texts_.at(listed.key)
                             : flags_.at(listed.key)   ? "true"
                                                       : "false";
    if (const Result<void> done = builder.set(listed.key, text, option + ":"); !done)
      refuse(kUsageStatus, done.error().text);
  }
  if (simulated_) tell_of_idle_settings(builder);
}

settings::RunConfig SettingsOptions::configure(const Given& given,
                                               settings::Collector<settings::RunConfig>& builder) const {
  CHECK(!simulated_);
  read(given, builder);
  const Result<settings::RunConfig> config = builder.finish();
  if (!config) refuse(kConfigStatus, config.error().text);
  if (config->protocol == dsm::Protocol::kMgs)
    refuse(kConfigStatus, builder.given().at("protocol") +
                              " 'mgs' is only for `braid sim`; take eager or lazy in a live run");
  if (config->engine.page_bytes < settings::kMinPageBytes)
    refuse(
        kConfigStatus,
        fmt::format(
            "{} {}: pages that are shorter than the kernel's, {} bytes, are only for `braid sim`; take {} in a live run",
            builder.given().at("engine.page_bytes"), config->engine.page_bytes, settings::kMinPageBytes,
            settings::kMinPageBytes));
  return *config;
}

}  // namespace braid::cli
