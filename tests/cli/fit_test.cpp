// The search of a fit, the model that it freezes, and what many simulations say together.
#include "tools/braid/study/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/json.h"
#include "settings/views/yaml.h"
#include "tests/base/temporary_folder.h"
#include "tools/braid/study/figures.h"

namespace braid::cli {
namespace {

using testing::HasSubstr;

std::string problem_of(const std::string& yaml) {
  const TemporaryFolder folder;
  const std::string path = folder / "targets.yaml";
  std::ofstream(path) << yaml;
  const Result<FitConfig> config = load_fit(path);
  return config.ok() ? "" : config.error().text;
}

constexpr char kHead[] = "{model: m, name: n, study: s.yaml, fit: [";
constexpr char kStages[] =
    "{number: stages, target: idle_cycles, value: 6000, least: 0.1, most: 10, source: here}";

TEST(Fit, TargetsAreChecked) {
  const std::string head = kHead, stages = kStages;
  EXPECT_EQ(problem_of(head + stages + "]}"), "");
  EXPECT_THAT(problem_of(head + "]}"), HasSubstr("key 'fit': is missing"));
  EXPECT_THAT(problem_of(head + stages + "," + stages + "]}"), HasSubstr("'stages' or 'idle_cycles' twice"));
  EXPECT_THAT(
      problem_of(head +
                 "{number: unit, target: utilisation, value: 0.3, least: 0.5, most: 9, source: here}]}"),
      HasSubstr("a unit is at least one cycle"));
  EXPECT_THAT(
      problem_of(head + "{number: speed, target: queue, value: 1, least: 1, most: 9, source: here}]}"),
      HasSubstr("'speed' is not allowed; allowed: stages, or"));
  EXPECT_THAT(problem_of(head + "{number: unit, target: quue, value: 1, least: 1, most: 9, source: here}]}"),
              HasSubstr("allowed: message_cycles, idle_cycles"));
  EXPECT_THAT(
      problem_of(head + "{number: unit, target: queue, value: 1, least: 10, most: 9, source: here}]}"),
      HasSubstr("10 is more than most (9)"));
  EXPECT_THAT(problem_of(head + "{number: unit, target: queue, value: 1, least: 1, most: 9}]}"),
              HasSubstr("has no 'source'"));
}

// A machine in which each number has some effect on the other's figure.
std::vector<double> machine(const std::vector<double>& numbers) {
  return {1000 + 3000 * numbers[0] + 20 * numbers[1],
          2 * std::pow(numbers[1], -0.7) * std::pow(numbers[0], 0.3)};
}

FitConfig two_numbers() {
  FitConfig config;
  config.tolerance = 0.001;
  config.rounds = 30;
  config.fit = {{.number = "stages",
                 .target = "idle_cycles",
                 .value = 6000,
                 .least = 0.1,
                 .most = 10,
                 .start = 1,
                 .source = "here"},
                {.number = "unit",
                 .target = "utilisation",
                 .value = 0.35,
                 .least = 1,
                 .most = 50,
                 .start = 2,
                 .source = "here"}};
  return config;
}

TEST(Fit, SearchMeetsTwoTargetsThatDependOnEachOther) {
  const FitConfig config = two_numbers();
  FitSearch search(config, {1, 2});
  while (!search.is_over()) search.look_at(machine(search.numbers()));
  EXPECT_TRUE(search.has_met());
  EXPECT_LT(search.rounds().size(), 20u);
  const std::vector<double> figures = machine(search.numbers());
  EXPECT_NEAR(figures[0], 6000, 6);
  EXPECT_NEAR(figures[1], 0.35, 0.00035);
}

TEST(Fit, NumbersStayInTheirBounds) {
  FitConfig config = two_numbers();
  config.fit[1].most = 3;  // the target needs more
  FitSearch search(config, {1, 2});
  while (!search.is_over()) {
    EXPECT_LE(search.numbers()[1], 3);
    search.look_at(machine(search.numbers()));
  }
  EXPECT_FALSE(search.has_met());
  EXPECT_EQ(search.numbers(), search.rounds()[search.best()].numbers);
}

TEST(Fit, SearchEndsAfterItsRounds) {
  FitConfig config = two_numbers();
  config.rounds = 2;
  FitSearch search(config, {1, 2});
  int rounds = 0;
  for (; !search.is_over(); ++rounds) search.look_at({1, 1});
  EXPECT_EQ(rounds, 2);
}

TEST(Fit, FrozenModelHasTheFittedCostsAndAllOthersAsTheyWere) {
  const Result<std::string> text = settings::read_text_file(BRAID_CONFIGS "/models/alewife-1997.yaml");
  ASSERT_TRUE(text.ok());
  const Result<settings::CostModel> own = settings::CostModel::parse(*text, "own");
  ASSERT_TRUE(own.ok());
  FitConfig config = two_numbers();
  config.name = "other";
  const Result<std::string> frozen = frozen_model(
      config, {2, 5}, {{"ack_delay_us", "700"}, {"window_packets", "64"}}, *text, *own, "# head\n");
  ASSERT_TRUE(frozen.ok()) << frozen.error().text;
  EXPECT_TRUE(frozen->starts_with("# head\nname: other\n"));
  const Result<settings::CostModel> read = settings::CostModel::parse(*frozen, "frozen");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->name, "other");
  EXPECT_EQ(read->unit, 5);
  EXPECT_EQ(read->window_send, 1016) << "twice 508.2 to four digits";
  EXPECT_DOUBLE_EQ(read->timer, 2 * own->timer);
  EXPECT_DOUBLE_EQ(read->checksum_byte, 2 * own->checksum_byte);
  EXPECT_EQ(read->handler, own->handler);
  EXPECT_EQ(read->latency, own->latency);
  EXPECT_EQ(read->protocol.ack_delay_us, 700u);
  EXPECT_EQ(read->protocol.window_packets, 64u) << "which the model had not";
  EXPECT_EQ(read->protocol.ack_every, own->protocol.ack_every);
}

TEST(Fit, ModelInAnotherFormIsRefused) {
  const FitConfig config = two_numbers();
  const Result<std::string> frozen = frozen_model(config, {2, 5}, {}, "name: x\n", settings::CostModel(), "");
  ASSERT_FALSE(frozen.ok());
  EXPECT_THAT(frozen.error().text, HasSubstr("has no line '  window_send: {value: …"));
}

TEST(Figures, SpreadIsTheMediansInterval) {
  std::vector<double> ten;
  for (int i = 10; i > 0; --i) ten.push_back(i);
  const Spread s = spread_of(ten);
  EXPECT_EQ(s.median, 5.5);
  EXPECT_EQ(s.low, 2);  // 1 - 2 * 11 / 1024 = 97.9 %
  EXPECT_EQ(s.high, 9);
  const Spread few = spread_of({3, 1, 2});
  EXPECT_EQ(few.median, 2);
  EXPECT_EQ(few.low, 1);
  EXPECT_EQ(few.high, 3);
  EXPECT_EQ(spread_of({4}).high, 4);
}

TEST(Figures, IdleTimeIsTheMessagesWithoutItsWaits) {
  const auto report = nlohmann::ordered_json::parse(
      R"({"messages": {"mean_cycles": 900, "mean_wait_to_send": 100, "mean_wait_for_link": 20, "mean_wait_to_receive": 80},
          "mean_utilisation": 0.5})");
  EXPECT_EQ(figure_of(report, "idle_cycles"), 700);
  EXPECT_EQ(figure_of(report, "waiting_cycles"), 200);
  EXPECT_EQ(figure_of(report, "utilisation"), 0.5);
  EXPECT_EQ(figure_of(report, "queue"), 0);
}

}  // namespace
}  // namespace braid::cli
