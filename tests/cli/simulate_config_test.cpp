// A simulation takes the transport's settings from the model, unless the user gave others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "settings/views/yaml.h"
#include "tools/braid/simulate/simulate.h"

namespace braid::cli {
namespace {

SimulationOptions options(const std::string& yaml) {
  settings::Collector<settings::RunConfig> builder;
  const Result<void> read = settings::load_yaml(builder, yaml, "run.yaml");
  EXPECT_TRUE(read.ok()) << read.error().text;
  SimulationOptions told;
  told.take(builder);
  return told;
}

settings::CostModel alewife() {
  const Result<settings::CostModel> model =
      settings::CostModel::load(BRAID_CONFIGS "/models/alewife-1997.yaml");
  EXPECT_TRUE(model.ok()) << model.error().text;
  return model.ok() ? *model : settings::CostModel();
}

settings::TransportConfig told(const std::string& yaml) {
  const Result<settings::TransportConfig> transport = transport_config(options(yaml), alewife());
  EXPECT_TRUE(transport.ok()) << transport.error().text;
  return transport.ok() ? *transport : settings::TransportConfig();
}

TEST(SimulatedTransport, GivenSettingsOverrideTheModel) {
  const settings::TransportConfig models = told("");
  EXPECT_EQ(models.mtu_bytes, 1500u);
  EXPECT_EQ(models.fragmentation, stack::Fragmentation::kIp);
  EXPECT_EQ(models.congestion, stack::CongestionControl::kNone);
  EXPECT_EQ(models.ack_every, 16u);
  EXPECT_EQ(models.ack_delay_us, 500u);
  EXPECT_EQ(models.min_rto_us, 20'000u);
  EXPECT_EQ(models.max_rto_us, 1'000'000u);
  EXPECT_EQ(models.window_packets, 256u);

  const settings::TransportConfig mixed = told(
      "transport: {mtu_bytes: 4000, congestion: delay, ack_delay_us: 10, window_packets: 8, max_rto_us: 50000}");
  EXPECT_EQ(mixed.mtu_bytes, 4000u);
  EXPECT_EQ(mixed.fragmentation, stack::Fragmentation::kIp);
  EXPECT_EQ(mixed.congestion, stack::CongestionControl::kDelay);
  EXPECT_EQ(mixed.ack_delay_us, 10u);
  EXPECT_EQ(mixed.window_packets, 8u);
  EXPECT_EQ(mixed.min_rto_us, 20'000u);
  EXPECT_EQ(mixed.max_rto_us, 50'000u);
}

TEST(SimulatedTransport, AutoIsTheWiresMaximum) {
  EXPECT_EQ(told("transport: {mtu_bytes: auto}").mtu_bytes, 9000u);
}

TEST(SimulatedTransport, SettingsThatContradictTheModelAreRefused) {
  const Result<settings::TransportConfig> refused =
      transport_config(options("transport: {max_rto_us: 10000}"), alewife());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().text,
      "transport with model alewife-1997: key 'min_rto_us': min_rto_us (20000) is longer than max_rto_us (10000); "
      "lower the one or raise the other");
}

TEST(SimulatedMachine, MustFitInMemory) {
  settings::RunConfig config;
  config.clusters = 256;
  config.proxies = 1;
  EXPECT_TRUE(fits_in_memory(config, std::uint64_t{16} << 30).ok());
  const Result<void> refused = fits_in_memory(config, std::uint64_t{8} << 30);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().text,
      "256 clusters with 1 proxies each need about 9 GiB to be simulated; this machine has 8. Take fewer clusters "
      "(--clusters) or proxies (--proxies)");
  config.clusters = 1;
  EXPECT_TRUE(fits_in_memory(config, 0).ok());
}

}  // namespace
}  // namespace braid::cli
