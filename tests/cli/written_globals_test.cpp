// Globals that clusters wrote, from invented reports.
#include "tools/braid/run/written_globals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace braid::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

Json wrote(std::vector<std::string> names, bool have_names = true, std::uint64_t more = 0) {
  return {
      {"globals",
       {{"have_names", have_names}, {"written", names}, {"more", more}, {"unwatched_bytes", 4096 * more}}}};
}

TEST(WrittenGlobals, ThoseOfSeveralClustersAreNamedWithTheClusters) {
  const std::vector<Json> reports = {wrote({"total", "mine", "grid"}), wrote({"grid"}),
                                     wrote({"total", "grid"})};
  const GlobalsOfClusters globals = globals_of(reports);
  ASSERT_EQ(globals.by_several.size(), 2u);
  EXPECT_EQ(globals.by_several[0].name, "total");
  EXPECT_EQ(globals.by_several[0].clusters, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(globals.by_several[1].name, "grid");
  EXPECT_EQ(globals.by_several[1].clusters, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_THAT(
      warnings(globals),
      ElementsAre(HasSubstr("each its own copy: total (clusters 0 and 2), grid (clusters 0, 1 and 2);")));
  EXPECT_EQ(json_of(globals)["written_by_several"][0]["clusters"], Json::array({0, 2}));
}

TEST(WrittenGlobals, ThoseOfOneClusterThatIsNotMainsAreNamedToo) {
  const std::vector<Json> reports = {wrote({"mine"}), wrote({"result", "grid"}),
                                     wrote({"grid", "count", "count"})};
  const GlobalsOfClusters globals = globals_of(reports);
  EXPECT_THAT(warnings(globals),
              ElementsAre(HasSubstr("each its own copy: grid (clusters 1 and 2);"),
                          HasSubstr("which main() does not see: result (cluster 1), count (cluster 2);")));
  EXPECT_EQ(json_of(globals)["written_by_one"],
            Json::parse(R"([{"name": "result", "clusters": [1]}, {"name": "count", "clusters": [2]}])"));
}

TEST(WrittenGlobals, NoneIsOneClustersAloneWhereClusterZeroMayHaveWrittenIt) {
  EXPECT_THAT(warnings(globals_of(std::vector<Json>{wrote({"a"}, true, 1), wrote({"b"})})), IsEmpty());
  EXPECT_THAT(warnings(globals_of(std::vector<Json>{Json(), wrote({"b"})})), IsEmpty());
}

TEST(WrittenGlobals, MainsOwnOrTwoVariablesOfOneNameInACluster) {
  EXPECT_THAT(warnings(globals_of(std::vector<Json>{wrote({"count", "count"}), wrote({})})), IsEmpty());
  EXPECT_EQ(globals_of(std::vector<Json>{wrote({"count", "count"}), wrote({"count"})}).by_several[0].clusters,
            (std::vector<std::uint32_t>{0, 1}));
}

TEST(WrittenGlobals, NamesAreBounded) {
  std::vector<std::string> many;
  for (int i = 0; i < 20; ++i) many.push_back("v" + std::to_string(i));
  const GlobalsOfClusters globals = globals_of(std::vector<Json>{wrote(many, true, 3), wrote(many, true, 4)});
  EXPECT_THAT(warnings(globals), ElementsAre(HasSubstr("v7 (clusters 0 and 1) and 12 more;")));
  EXPECT_EQ(json_of(globals)["written_by_several"].size(), 20u);
  EXPECT_EQ(globals.not_told, 7u);
  EXPECT_EQ(globals.unwatched_bytes, 4u * 4096);
}

TEST(WrittenGlobals, StrippedProgramsAreSaidToBe) {
  EXPECT_THAT(warnings(globals_of(std::vector<Json>{wrote({}, false), wrote({}, false)})),
              ElementsAre(HasSubstr("stripped")));
}

TEST(WrittenGlobals, WhatIsNoReportIsLeftOut) {
  const std::vector<Json> odd = {Json(),
                                 Json(5),
                                 Json::parse(R"({"globals": 7})"),
                                 Json::parse(R"({"globals": {"written": 5, "have_names": 3, "more": -2}})"),
                                 Json::parse(R"({"globals": {"written": [5, null, "x"]}})"),
                                 wrote({"x"})};
  const GlobalsOfClusters globals = globals_of(odd);
  ASSERT_EQ(globals.by_several.size(), 1u);
  EXPECT_EQ(globals.by_several[0].clusters, (std::vector<std::uint32_t>{4, 5}));
  EXPECT_TRUE(globals.have_names);
  EXPECT_THAT(warnings(globals_of({})), IsEmpty());
}

}  // namespace
}  // namespace braid::cli
