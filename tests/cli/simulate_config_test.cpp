// A simulation takes the transport's settings, costs and the engine's constants from the model, unless the user gave others.
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

// What cannot be with the model's values where none was given; empty: nothing.
std::string contradiction(const std::string& yaml, const settings::CostModel& model = alewife()) {
  settings::Collector<settings::RunConfig> builder;
  const Result<void> read = settings::load_yaml(builder, yaml, "run.yaml");
  EXPECT_TRUE(read.ok()) << read.error().text;
  const Result<void> good = check_simulated(builder, model);
  return good ? "" : good.error().text;
}

TEST(SimulatedTransport, RelationsAreCheckedWithTheModelsValues) {
  EXPECT_EQ(contradiction("transport: {ack_delay_us: 19999}"), "")
      << "not against the default of min_rto_us, 500";
  EXPECT_THAT(
      contradiction("transport: {ack_delay_us: 20000}"),
      testing::StartsWith("run.yaml:1:13: key 'transport.ack_delay_us': ack_delay_us (20000) must be shorter "
                          "than min_rto_us (20000)"));
  EXPECT_THAT(
      contradiction("transport: {max_rto_us: 10000}"),
      testing::StartsWith("run.yaml:1:13: key 'transport.max_rto_us': min_rto_us (20000) is longer than "
                          "max_rto_us (10000)"));
  EXPECT_EQ(contradiction("{transport: {mtu_bytes: 4000, fragmentation: ip}, wire: udp}"), "")
      << "the wire shapes live runs";
}

TEST(SimulatedEngine, RelationsAreCheckedWithTheModelsPages) {
  settings::CostModel model = alewife();
  EXPECT_EQ(contradiction("window_kib: 32", model), "");
  model.engine.page_bytes = 16384;
  EXPECT_THAT(contradiction("window_kib: 32", model), testing::HasSubstr("take at least 128"));
  EXPECT_EQ(contradiction("{window_kib: 32, engine: {page_bytes: 4096}}", model), "");
}

settings::EngineSettings engine(const std::string& yaml, const settings::CostModel& model = alewife()) {
  return engine_settings(options(yaml).config, model);
}

TEST(SimulatedEngine, ConstantsAreTheUsersThenTheModelsThenTheProtocols) {
  using settings::Choice;
  const settings::EngineSettings eager = engine("");
  EXPECT_EQ(eager.fetch_ahead, dsm::EngineConfig().fetch_ahead);
  EXPECT_EQ(eager.migrate_after, 2u);
  EXPECT_EQ(eager.pack, Choice::kYes);
  EXPECT_EQ(eager.release_at_unlock, Choice::kNo);
  EXPECT_EQ(engine("protocol: lazy").migrate_after, 4u);

  const settings::EngineSettings mgs = engine("protocol: mgs");
  EXPECT_EQ(mgs.fetch_ahead, 0u);
  EXPECT_EQ(mgs.scan_ahead, 0u);
  EXPECT_EQ(mgs.run_pages, 1u);
  EXPECT_EQ(mgs.flush_window, 1u);
  EXPECT_EQ(mgs.migrate_after, 0u);
  EXPECT_EQ(mgs.local_handoffs, 0u);
  EXPECT_EQ(mgs.lease_uses, 0u);
  EXPECT_EQ(mgs.pack, Choice::kNo);
  EXPECT_EQ(mgs.release_at_unlock, Choice::kYes);
  EXPECT_EQ(mgs.barrier_fan_out, eager.barrier_fan_out);

  settings::CostModel model = alewife();
  model.engine.flush_window = 3;
  model.engine.pack = Choice::kYes;
  const settings::EngineSettings mixed =
      engine("{protocol: mgs, engine: {flush_window: 5, release_at_unlock: no}}", model);
  EXPECT_EQ(mixed.flush_window, 5u);
  EXPECT_EQ(mixed.pack, Choice::kYes);
  EXPECT_EQ(mixed.release_at_unlock, Choice::kNo);
  EXPECT_EQ(mixed.fetch_ahead, 0u);
}

TEST(SimulatedEngine, WindowThatIsNotGivenCarriesAPage) {
  settings::CostModel model = alewife();
  const auto window = [&](const std::string& yaml) {
    return machine_config(options(yaml), model)->iccs.window_bytes;
  };
  EXPECT_EQ(window(""), 256u << 10);
  EXPECT_EQ(window("engine: {page_bytes: 65536}"), 512u << 10);
  EXPECT_EQ(window("{window_kib: 1024, engine: {page_bytes: 65536}}"), 1024u << 10);
  EXPECT_EQ(window("window_kib: 64"), 64u << 10);
}

TEST(SimulatedEngine, MachineHasTheLengthOfAPage) {
  settings::CostModel model = alewife();
  const auto machine = [&](const std::string& yaml) { return machine_config(options(yaml), model); };
  EXPECT_EQ(machine("heap_mib: 3")->page_length, dsm::PageLength());
  EXPECT_EQ(machine("heap_mib: 3")->heap_pages, 768u);
  const Result<sim::MachineConfig> longer = machine("{heap_mib: 3, engine: {page_bytes: 8192}}");
  EXPECT_EQ(longer->page_length, dsm::PageLength(8192));
  EXPECT_EQ(longer->heap_pages, 384u);
  model.engine.page_bytes = 16384;
  EXPECT_EQ(machine("heap_mib: 3")->page_length, dsm::PageLength(16384));
  const Result<sim::MachineConfig> refused = machine("window_kib: 32");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, testing::HasSubstr("take at least 128"));
}

TEST(SimulatedEngine, ModelsHaveConstants) {
  const Result<std::string> text = settings::read_text_file(BRAID_CONFIGS "/models/alewife-1997.yaml");
  ASSERT_TRUE(text.ok());
  const Result<settings::CostModel> model =
      settings::CostModel::parse(*text + "engine: {fetch_ahead: 7, pack: false}\n", "mine.yaml");
  ASSERT_TRUE(model.ok()) << model.error().text;
  EXPECT_EQ(engine("", *model).fetch_ahead, 7u);
  EXPECT_EQ(engine("", *model).pack, settings::Choice::kNo);
  EXPECT_EQ(engine("engine: {fetch_ahead: auto}", *model).fetch_ahead, 7u);
}

TEST(SimulatedCosts, GivenCostsOverrideTheModels) {
  const settings::CostModel own = alewife();
  const settings::CostModel mixed = priced(options("cycles: {unit: 5, handler: 0, fault: auto}").config, own);
  EXPECT_EQ(mixed.unit, 5);
  EXPECT_EQ(mixed.handler, 0);
  EXPECT_EQ(mixed.fault, own.fault);
  EXPECT_EQ(mixed.window_send, own.window_send);
  const settings::CostModel same = priced(options("").config, own);
  for (const settings::Setting& cost : settings::cost_settings())
    EXPECT_EQ(cost.get(static_cast<const settings::Costs*>(&same)),
              cost.get(static_cast<const settings::Costs*>(&own)))
        << cost.name;
}

TEST(SimulatedMachine, MustFitInMemory) {
  settings::RunConfig config;
  config.clusters = 256;
  config.proxies = 1;
  EXPECT_TRUE(fits_in_memory(config, config.transport, std::uint64_t{1} << 30).ok())
      << "so many are connected at first use";
  config.transport.connect = settings::Connect::kAtStart;
  EXPECT_TRUE(fits_in_memory(config, config.transport, std::uint64_t{2} << 30).ok());
  const Result<void> refused = fits_in_memory(config, config.transport, std::uint64_t{1} << 30);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().text,
      "256 clusters with 1 proxy each need about 2 GiB to be simulated; this machine has 1. Take fewer clusters "
      "(--clusters) or proxies (--proxies)");
  config.proxies = 4;
  EXPECT_TRUE(fits_in_memory(config, config.transport, std::uint64_t{8} << 30).ok());
  config.transport.all_pairs = true;
  EXPECT_FALSE(fits_in_memory(config, config.transport, std::uint64_t{8} << 30).ok())
      << "each pair of clusters has 16 sub-connections";
  config.clusters = 1;
  EXPECT_TRUE(fits_in_memory(config, config.transport, 0).ok());
}

}  // namespace
}  // namespace braid::cli
