// The page of all settings is what the program prints.
#include "settings/views/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/check.h"
#include "settings/cost_model.h"
#include "settings/node.h"
#include "settings/reader.h"
#include "settings/run.h"

namespace braid::settings {
namespace {

TEST(Reference, ThePageInTheDocumentationIsWhatTheProgramPrints) {
  std::ifstream file(BRAID_DOCS "/SETTINGS.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), reference_page()) << "write it anew: braid help settings > docs/SETTINGS.md";
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
