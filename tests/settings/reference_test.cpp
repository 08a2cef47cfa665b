// docs/SETTINGS.md and configs/default.yaml are what the program prints.
#include "settings/views/reference.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/json.h"
#include "settings/cost_model.h"
#include "settings/node.h"
#include "settings/reader.h"
#include "settings/run.h"
#include "settings/views/default_file.h"
#include "settings/views/json.h"
#include "settings/views/yaml.h"

namespace braid::settings {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Reference, DocumentationPageEqualsTheProgramsOutput) {
  EXPECT_EQ(contents(BRAID_DOCS "/SETTINGS.md"), reference_page())
      << "write it again: braid help settings > docs/SETTINGS.md";
}

TEST(DefaultFile, FileInConfigsEqualsTheProgramsOutput) {
  EXPECT_EQ(contents(BRAID_CONFIGS "/default.yaml"), default_file())
      << "write it again: braid help defaults > configs/default.yaml";
}

TEST(DefaultFile, ReadsAsTheDefaultsAndHasEverySetting) {
  Collector<RunConfig> collector;
  const Result<void> loaded = load_yaml(collector, default_file(), "default.yaml");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  const Result<RunConfig> read = collector.finish();
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(json_of(*read), json_of(RunConfig{}));
  for (const Listed& listed : all_settings(kRunSchema))
    EXPECT_TRUE(collector.is_given(listed.key)) << listed.key;
  EXPECT_TRUE(collector.is_given("dpdk.interfaces"));
}

TEST(DefaultFile, HelpBoundsAndReasonStandAboveEachSettingInLinesOfLimitedWidth) {
  const std::string text = default_file();
  EXPECT_THAT(text, testing::HasSubstr("# allowed: 1 to 32\nproxies: 1\n"));
  EXPECT_THAT(text, testing::HasSubstr("# allowed: true, false; live runs only\nmisdirect: false\n"));
  EXPECT_THAT(text, testing::HasSubstr(
                        "256 in simulations, or the\n# least that carries a page\nwindow_kib: auto\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n  directory: \"\"\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST(Reference, NamesEverySettingWithItsOption) {
  const std::string page = reference_page();
  for (const Schema* const schema : {&kRunSchema, &kNodeSchema, &kCostModelSchema}) {
    for (const Listed& listed : all_settings(*schema)) {
      EXPECT_THAT(page, testing::HasSubstr(fmt::format("| `{}` |", listed.setting->name)));
      if (!listed.setting->option.empty()) {
        EXPECT_THAT(page, testing::HasSubstr(fmt::format("| `{}` |", listed.setting->option)));
      }
    }
  }
}

}  // namespace
}  // namespace braid::settings
