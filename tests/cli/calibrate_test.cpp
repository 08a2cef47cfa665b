// What `braid calibrate` writes and says, from numbers that are known.
#include "tools/braid/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cost_model.h"

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
  for (const sim::CostKey& key : sim::cost_keys()) {
    c.costs[key.key] = {value, "how it was measured"};
    value += 1;
  }
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

TEST(Calibrate, WritesAModelThatSimulationsRead) {
  const Calibration c = calibration();
  const Result<sim::CostModel> read = sim::CostModel::parse(render_model(c, {prediction()}), "test");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->name, "modern");
  EXPECT_EQ(read->cycles_per_second, 2.3e9);
  for (const sim::CostKey& key : sim::cost_keys())
    EXPECT_DOUBLE_EQ((*read).*key.value, c.costs.at(key.key).cycles) << key.key;
  // What `braid run` has (docs/OPERATIONS.md).
  EXPECT_EQ(read->protocol.mtu_bytes, 9000u);
  EXPECT_EQ(read->protocol.fragmentation, stack::Fragmentation::kTransport);
  EXPECT_EQ(read->protocol.congestion, stack::CongestionControl::kDelay);
  EXPECT_EQ(read->protocol.ack_every, 16u);
  EXPECT_EQ(read->protocol.ack_delay_us, 10u);
  EXPECT_EQ(read->protocol.min_rto_us, 500u);
}

TEST(Calibrate, EverySourceNamesTheProcessorAndTheDay) {
  const std::string model = render_model(calibration(), {});
  std::size_t named = 0;
  for (std::size_t at = 0;
       (at = model.find(R"(how it was measured; A \"quoted\" \\ processor: 3, 2026-11-22)", at)) !=
       std::string::npos;
       ++at)
    ++named;
  EXPECT_EQ(named, sim::cost_keys().size());
}

TEST(Calibrate, TellsTheErrorOfThePredictionAgainstMedianAndLeast) {
  const std::string text = render_text(calibration(), {prediction()});
  EXPECT_THAT(text, HasSubstr("0.090 s"));
  EXPECT_THAT(text, HasSubstr("0.100 s (-10 %)"));
  EXPECT_THAT(text, HasSubstr("0.080 s (+12 %)"));
  EXPECT_THAT(render_model(calibration(), {prediction()}), HasSubstr("0.100 s (-10 %)"));
}

TEST(Calibrate, SaysWhenThreadsShareProcessorsOrOthersUseThem) {
  Calibration c = calibration();
  EXPECT_THAT(render_text(c, {prediction()}), Not(HasSubstr("processor(s)")));
  c.cores = 3;
  EXPECT_THAT(render_text(c, {prediction()}), HasSubstr("3 processor(s) for 4 threads"));
  EXPECT_THAT(render_text(c, {prediction()}), Not(HasSubstr("Others use this machine")));
  c.load = 5.5;
  EXPECT_THAT(render_text(c, {prediction()}), HasSubstr("load 5.5 on 3 processor(s)"));
  EXPECT_THAT(render_model(c, {}), HasSubstr("load 5.5 on 3 processors"));
}

}  // namespace
}  // namespace braid::cli
