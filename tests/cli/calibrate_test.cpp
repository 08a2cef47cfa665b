// The models and texts that `braid calibrate` makes from known measurements.
#include "tools/braid/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "settings/cost_model.h"
#include "tools/braid/calibrate/programs.h"

namespace braid::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Calibration calibration() {
  Calibration c;
  c.processor = R"(A "quoted" \ processor: 3)";
  c.day = "2026-11-22";
  c.clock_mhz = 2300;
  c.clock_source = "a test";
  c.cores = 8;
  double value = 1.25;
  for (const settings::Setting& cost : settings::cost_settings()) {
    c.costs[std::string(cost.name)] = {value, "how it was measured"};
    value += 1;
  }
  // The shortest times give 0.5, 1 and 4 cycles per unit at 2300 MHz.
  c.programs = {{"quick", "quick --size 1", 4.6e9, {1, 2, 3}},
                {"usual", "usual", 2.3e8, {0.1, 0.1, 0.2}},
                {"slow", "slow --far", 2.3e9, {4, 4.5, 5}}};
  return c;
}

Prediction prediction() {
  Prediction p;
  p.command = "water --iterations 2";
  p.clusters = 2;
  p.predicted_seconds = 0.09;
  p.measured_seconds = {0.08, 0.1, 0.3};
  return p;
}

TEST(Calibrate, ModelThatItWritesCanBeRead) {
  const Calibration c = calibration();
  const Result<settings::CostModel> read =
      settings::CostModel::parse(render_model(c, {prediction()}), "test");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->name, "modern");
  EXPECT_EQ(read->cycles_per_second, 2.3e9);
  for (const settings::Setting& cost : settings::cost_settings())
    EXPECT_DOUBLE_EQ(settings::number_of_text(cost.get(&*read)), c.costs.at(std::string(cost.name)).cycles)
        << cost.name;
  EXPECT_DOUBLE_EQ(read->unit_of("quick"), 0.5);
  EXPECT_DOUBLE_EQ(read->unit_of("usual"), 1);
  EXPECT_DOUBLE_EQ(read->unit_of("slow"), 4);
  EXPECT_DOUBLE_EQ(read->unit_of("another"), c.costs.at("unit").cycles);
  // The defaults of `braid run` (docs/OPERATIONS.md).
  EXPECT_EQ(read->protocol.mtu_bytes, 9000u);
  EXPECT_EQ(read->protocol.fragmentation, stack::Fragmentation::kTransport);
  EXPECT_EQ(read->protocol.congestion, stack::CongestionControl::kDelay);
  EXPECT_EQ(read->protocol.ack_every, 16u);
  EXPECT_EQ(read->protocol.ack_delay_us, 10u);
  EXPECT_EQ(read->protocol.min_rto_us, 500u);
}

TEST(Calibrate, UnitsOfProgramsInAModelAreChecked) {
  const std::string model = render_model(calibration(), {});
  const auto problem = [&](const std::string& units) {
    const Result<settings::CostModel> read =
        settings::CostModel::parse(model.substr(0, model.find("units:")) + units, "test");
    return read ? std::string("none") : read.error().text;
  };
  EXPECT_EQ(problem("units:\n  water: {value: 2, source: here}\n"), "none");
  EXPECT_THAT(problem("units:\n  water: {value: 0, source: here}\n"),
              HasSubstr("key 'units.water': 0 is out of range; allowed: cycles, more than 0"));
  EXPECT_THAT(problem("units:\n  water: 3\n"), HasSubstr("key 'units.water': needs a value and its source"));
  EXPECT_THAT(problem("units: 3\n"),
              HasSubstr("key 'units': is a section: the cost of a unit in each program"));
}

TEST(Calibrate, PrintedTimeIsReadFromAVerifiedResultOnly) {
  const Result<double> seconds = printed_seconds("jacobi 512 x 512: 1.250 s, verified\n", "jacobi");
  ASSERT_TRUE(seconds.ok()) << seconds.error().text;
  EXPECT_DOUBLE_EQ(*seconds, 1.25);
  for (const char* output : {"", "jacobi 512 x 512: 1.250 s, WRONG\n", "jacobi: fast, verified\n"})
    EXPECT_EQ(printed_seconds(output, "jacobi --size 512").error().text,
              std::string("jacobi --size 512 did not print a time and 'verified', but: ") + output);
}

TEST(Calibrate, ProgramThatFailsIsNamedWithItsError) {
  const Result<std::string> failed = output_of("/bin", "sh", {"-c", "echo no luck >&2; exit 3"});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().text, "sh -c echo no luck >&2; exit 3 failed: no luck\n");
  EXPECT_THAT(output_of("/bin", "sh", {"-c", "exit 3"}).error().text,
              HasSubstr("failed: it wrote nothing on standard error"));
  EXPECT_EQ(*output_of("/bin", "sh", {"-c", "echo out; echo err >&2"}), "out\n");
}

TEST(Calibrate, EachProgramIsPredictedForAnotherSizeThanItWasPricedWith) {
  std::set<std::string> names;
  for (const auto& [priced, other] : calibration_programs()) {
    EXPECT_EQ(priced.name, other.name);
    EXPECT_NE(priced.text(), other.text());
    EXPECT_TRUE(names.insert(priced.name).second) << priced.name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"barnes", "fft", "gauss", "jacobi", "matmul", "tsp", "unstructured",
                                          "water"}));
  EXPECT_EQ(calibration_programs().front().priced.text(), "jacobi --size 512 --iterations 100");
}

TEST(Calibrate, EverySourceNamesTheProcessorAndTheDay) {
  const std::string model = render_model(calibration(), {});
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = model.find(text, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  const std::string tail = R"(; A \"quoted\" \\ processor: 3, 2026-11-22)";
  EXPECT_EQ(count("how it was measured" + tail), settings::cost_settings().size());
  EXPECT_EQ(count("least of 3 printed times of slow --far alone, divided by the units that it counts" + tail),
            1u);
  EXPECT_EQ(count(tail), settings::cost_settings().size() + 3);
}

TEST(Calibrate, PredictsEachProgramByTheGeometricMeanOfTheOthers) {
  const std::vector<Prediction> predictions = leave_one_out(calibration());
  ASSERT_EQ(predictions.size(), 3u);
  EXPECT_EQ(predictions[0].command, "quick --size 1");
  EXPECT_EQ(predictions[0].unit, Prediction::Unit::kOthers);
  EXPECT_EQ(predictions[0].threads(), 1u);
  EXPECT_NEAR(predictions[0].predicted_seconds, 4, 1e-12);      // 2 cycles for 0.5
  EXPECT_NEAR(predictions[1].predicted_seconds, 0.1414, 1e-4);  // 1.414 for 1
  EXPECT_NEAR(predictions[2].predicted_seconds, 0.7071, 1e-4);  // 0.7071 for 4
  EXPECT_NEAR(predictions[0].error(), 1, 1e-12);                // twice the median
  EXPECT_NEAR(predictions[0].error_of_least(), 3, 1e-12);
}

TEST(Calibrate, TextHasTheRangeOfErrorsWithAndWithoutAUnit) {
  std::vector<Prediction> predictions = leave_one_out(calibration());
  predictions.push_back(prediction());
  predictions.push_back(prediction());
  predictions.back().predicted_seconds = 0.12;
  const std::string text = render_text(calibration(), predictions);
  EXPECT_THAT(text, HasSubstr("Errors for programs with a unit of their own: -10 % to +20 %."));
  EXPECT_THAT(text, HasSubstr("Errors for programs without one: -84 % to +100 %."));
}

TEST(Calibrate, ColumnsStandBelowEachOtherForALongCommand) {
  Prediction longer = prediction();
  longer.command = std::string(50, 'x');
  const std::string text = render_text(calibration(), {prediction(), longer});
  const auto column = [&](const std::string& line, const char* word) {
    const std::size_t at = text.find(line);
    return text.find(word, at) - at;
  };
  EXPECT_EQ(column("program ", "unit"), column("water", "its own") + 3);
  EXPECT_EQ(column("water", "its own"), column("xxx", "its own"));
}

TEST(Calibrate, TextHasTheErrorAgainstMedianAndLeast) {
  const std::string text = render_text(calibration(), {prediction()});
  EXPECT_THAT(text, HasSubstr("0.090 s"));
  EXPECT_THAT(text, HasSubstr("0.100 s (-10 %)"));
  EXPECT_THAT(text, HasSubstr("0.080 s (+12 %)"));
  EXPECT_THAT(render_model(calibration(), {prediction()}), HasSubstr("0.100 s (-10 %)"));
}

TEST(Calibrate, RunsWithMoreThreadsThanProcessorsAreNotCompared) {
  Calibration c = calibration();
  EXPECT_THAT(render_text(c, {prediction()}), Not(HasSubstr("Not compared")));
  c.cores = 3;
  Prediction uncompared = prediction();
  uncompared.measured_seconds.clear();
  EXPECT_EQ(uncompared.threads(), 4u);
  const std::string text = render_text(c, {uncompared});
  EXPECT_THAT(text, HasSubstr("0.090 s       not compared\n"));
  EXPECT_THAT(text, HasSubstr("up to 4 threads and this machine has 3 processor(s)"));
  EXPECT_THAT(text, Not(HasSubstr("%")));
  EXPECT_THAT(render_model(c, {uncompared}), HasSubstr("not compared"));
}

TEST(Calibrate, LoadOfOtherProcessesIsReported) {
  Calibration c = calibration();
  EXPECT_THAT(render_text(c, {prediction()}), Not(HasSubstr("Other processes use this machine")));
  c.load = 5.5;
  EXPECT_THAT(render_text(c, {prediction()}), HasSubstr("load 5.5 on 8 processor(s)"));
  EXPECT_THAT(render_model(c, {}), HasSubstr("load 5.5 on 8 processors"));
}

}  // namespace
}  // namespace braid::cli
