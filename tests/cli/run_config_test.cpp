// The configuration of a run, by file and by flag: every mistake is refused with its place and the cure, and the
// project's own files are read as documented.
#include "settings/reader.h"
#include "settings/run.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "settings/text.h"
#include "settings/views/json.h"
#include "settings/views/yaml.h"

namespace braid::cli {
namespace {

using settings::json_of;
using settings::nearest;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string config_path(const std::string& name) {
  return std::string(BRAID_CONFIGS) + "/" + name;
}

Result<settings::RunConfig> loaded(const std::string& yaml) {
  settings::Collector<settings::RunConfig> builder;
  if (const Result<void> done = settings::load_yaml(builder, yaml, "run.yaml"); !done) return done.error();
  return builder.finish();
}

std::string refusal(const std::string& yaml) {
  const Result<settings::RunConfig> result = loaded(yaml);
  return result.ok() ? "(accepted)" : result.error().text;
}

settings::RunConfig file(const std::string& name) {
  settings::Collector<settings::RunConfig> builder;
  const Result<void> read = settings::load_yaml_file(builder, config_path(name));
  EXPECT_TRUE(read.ok()) << read.error().text;
  Result<settings::RunConfig> config = builder.finish();
  EXPECT_TRUE(config.ok()) << config.error().text;
  return config.ok() ? *config : settings::RunConfig{};
}

TEST(RunConfig, DefaultsAreConsistent) {
  const settings::RunConfig defaults;
  EXPECT_EQ(settings::find_conflict(settings::kRunSchema, &defaults), std::nullopt);
}

TEST(RunConfig, FileSetsOnlyTheNamedSettings) {
  const Result<settings::RunConfig> config =
      loaded("clusters: 4\ntransport:\n  mtu_bytes: 1400\nfaults: {loss: 0.5, seed: 7}\n");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config->clusters, 4u);
  EXPECT_EQ(config->mtu_bytes(), 1400u);
  EXPECT_EQ(config->faults.loss, 0.5);
  EXPECT_EQ(config->faults.seed, 7u);
  EXPECT_EQ(config->compute, settings::RunConfig{}.compute);
  EXPECT_EQ(config->transport.window_packets, settings::RunConfig{}.transport.window_packets);
}

TEST(RunConfig, EmptyFileGivesTheDefaults) {
  EXPECT_EQ(json_of(*loaded("")), json_of(settings::RunConfig{}));
  EXPECT_EQ(json_of(*loaded("# nothing but a comment\n")), json_of(settings::RunConfig{}));
}

TEST(RunConfig, RefusesUnknownKeysAndNamesTheNearest) {
  EXPECT_EQ(refusal("compute: 1\nclutsers: 3\n"),
            "run.yaml:2:1: key 'clutsers': is not known; did you mean 'clusters'?");
  EXPECT_EQ(refusal("transport:\n  mtu: 1400\n"),
            "run.yaml:2:3: key 'transport.mtu': is not known; did you mean 'transport.mtu_bytes'?");
  EXPECT_EQ(refusal("idle:\n  sleep_min: 4\n"),
            "run.yaml:2:3: key 'idle.sleep_min': is not known; did you mean 'idle.sleep_min_us'?");
  EXPECT_EQ(refusal("loss: 0.1\n"), "run.yaml:1:1: key 'loss': is not known; did you mean 'faults.loss'?");
  EXPECT_EQ(refusal("tranport: {mtu_bytes: 1400}\n"),
            "run.yaml:1:1: key 'tranport': is not known; did you mean 'transport'?");
  EXPECT_THAT(
      refusal("xyzzyplugh: 1\n"),
      AllOf(
          StartsWith("run.yaml:1:1: key 'xyzzyplugh': is not known; known here: clusters, compute, proxies"),
          HasSubstr("transport")));
  EXPECT_THAT(
      refusal("faults: {qqqqqqqq: 1}\n"),
      HasSubstr(
          "known here: loss, duplicate, reorder, corrupt, flip_past_checksum_every, drop_all_after, delay_ms, seed"));
}

TEST(RunConfig, DuplicateKeyIsRefused) {
  EXPECT_EQ(refusal("clusters: 2\ncompute: 1\nclusters: 3\n"),
            "run.yaml:3:1: key 'clusters': is given twice; remove one of them");
  EXPECT_EQ(refusal("idle:\n  yields: 2\n  yields: 3\n"),
            "run.yaml:3:3: key 'idle.yields': is given twice; remove one of them");
}

TEST(RunConfig, RefusesAWrongType) {
  EXPECT_EQ(refusal("clusters: two\n"),
            "run.yaml:1:11: key 'clusters': 'two' is not a whole number; allowed: 1 to 1024");
  EXPECT_EQ(refusal("clusters: 1.5\n"),
            "run.yaml:1:11: key 'clusters': '1.5' is not a whole number; allowed: 1 to 1024");
  EXPECT_EQ(refusal("clusters: \"2\"\n"),
            "run.yaml:1:11: key 'clusters': \"2\" is a string; write it without quotes; allowed: 1 to 1024");
  EXPECT_EQ(refusal("clusters:\n"), "run.yaml:1:1: key 'clusters': has no value; allowed: 1 to 1024");
  EXPECT_EQ(refusal("clusters: [1, 2]\n"),
            "run.yaml:1:11: key 'clusters': is a list where one value is expected; allowed: 1 to 1024");
  EXPECT_EQ(refusal("clusters: {a: 2}\n"),
            "run.yaml:1:11: key 'clusters': is a section where one value is expected; allowed: 1 to 1024");
  EXPECT_EQ(refusal("misdirect: yes\n"),
            "run.yaml:1:12: key 'misdirect': 'yes' is not allowed; allowed: true, false");
  EXPECT_THAT(refusal("wire: udp\nproxies: 2\nmisdirect: true\n"),
              HasSubstr("the kernel brings each packet to the socket of its proxy; take another wire"));
  EXPECT_THAT(refusal("faults: {loss: 1%}\n"),
              HasSubstr("run.yaml:1:16: key 'faults.loss': '1%' is not a number"));
  EXPECT_THAT(refusal("faults: 3\n"),
              HasSubstr("run.yaml:1:1: key 'faults': is a section; put its keys below it: loss, duplicate"));
  EXPECT_THAT(refusal("dpdk: {interfaces: 3}\n"), HasSubstr("key 'dpdk.interfaces': must be a list"));
  EXPECT_THAT(refusal("dpdk: {interfaces: [3]}\n"),
              HasSubstr("key 'dpdk.interfaces[0]': must be '{cluster: 0"));
}

TEST(RunConfig, RefusesValuesOutOfRange) {
  EXPECT_EQ(refusal("clusters: 0\n"), "run.yaml:1:11: key 'clusters': 0 is out of range; allowed: 1 to 1024");
  EXPECT_EQ(
      refusal("clusters: 1025\n"),
      "run.yaml:1:11: key 'clusters': 1025 is out of range; allowed: 1 to 1024; for more compute nodes take "
      "larger clusters ('compute')");
  EXPECT_EQ(
      refusal("compute: 129\n"),
      "run.yaml:1:10: key 'compute': 129 is out of range; allowed: 1 to 128; for more compute nodes take "
      "more clusters ('clusters')");
  EXPECT_EQ(refusal("proxies: 33\n"), "run.yaml:1:10: key 'proxies': 33 is out of range; allowed: 1 to 32");
  EXPECT_THAT(refusal("clusters: -1\n"), HasSubstr("'-1' is not a whole number; allowed: 1 to 1024"));
  EXPECT_THAT(refusal("faults: {loss: 1.01}\n"),
              HasSubstr("1.01 is out of range; allowed: a probability, 0 to 1"));
  EXPECT_THAT(refusal("faults: {loss: .nan}\n"), HasSubstr("allowed: a probability, 0 to 1"));
  EXPECT_THAT(refusal("faults: {loss: nan}\n"), HasSubstr("allowed: a probability, 0 to 1"));
  EXPECT_EQ(refusal("dispatch: random\n"),
            "run.yaml:1:11: key 'dispatch': 'random' is not allowed; allowed: fixed, rr, round-robin, "
            "least-loaded");
  EXPECT_EQ(refusal("wire: tcp\n"),
            "run.yaml:1:7: key 'wire': 'tcp' is not allowed; allowed: shm, udp, dpdk, af_xdp, af_packet");
  EXPECT_EQ(refusal("transport: {mtu_bytes: 575}\n"),
            "run.yaml:1:24: key 'transport.mtu_bytes': '575' is not allowed; allowed: auto, or 576 to 9000");
  EXPECT_THAT(refusal("transport: {window_packets: 257}\n"),
              HasSubstr("257 is out of range; allowed: 1 to 256"));
}

TEST(RunConfig, RefusesContradictions) {
  EXPECT_EQ(refusal("wire: dpdk\ntransport:\n  mtu_bytes: 9000\n"),
            "run.yaml:3:3: key 'transport.mtu_bytes': 9000 is too long for wire dpdk; allowed: 576 to 1500, "
            "or take wire shm");
  EXPECT_THAT(refusal("window_kib: 100\n"),
              HasSubstr("run.yaml:1:1: key 'window_kib': 100 is not a power of two; take 64 or 128"));
  EXPECT_THAT(refusal("engine: {page_bytes: 12288}\n"),
              HasSubstr("key 'engine.page_bytes': 12288 is not a power of two; take 8192 or 16384"));
  EXPECT_THAT(refusal("engine: {page_bytes: 131072}\n"), HasSubstr("1024 to 65536"));
  EXPECT_THAT(
      refusal("window_kib: 64\nengine: {page_bytes: 32768}\n"),
      HasSubstr("run.yaml:1:1: key 'window_kib': 64 KiB do not carry a page of 32768 bytes in one message; "
                "take at least 256"));
  EXPECT_THAT(refusal("misdirect: true\n"),
              HasSubstr("run.yaml:1:1: key 'misdirect': with one proxy there is none"));
  EXPECT_THAT(refusal("clusters: 34\nwire: dpdk\n"),
              HasSubstr("run.yaml:1:1: key 'clusters': 34 clusters need 33 memif"));
  EXPECT_THAT(refusal("transport: {min_rto_us: 2000, max_rto_us: 1000}\n"),
              HasSubstr("min_rto_us (2000) is longer than max_rto_us (1000)"));
  EXPECT_THAT(refusal("transport: {path_death_ms: 1}\n"),
              HasSubstr("must be at least four times min_rto_us (500 us)"));
  EXPECT_EQ(refusal("transport:\n  path_death_ms: 10000\n"),
            "run.yaml:2:3: key 'transport.path_death_ms': peer_death_ms (10000) must be longer than "
            "path_death_ms (10000): a peer is dead when all its paths are; raise the one or lower the other");
  EXPECT_THAT(refusal("idle: {sleep_min_us: 300}\n"),
              HasSubstr("sleep_min_us (300) is longer than sleep_max_us (200)"));
}

TEST(RunConfig, RefusesInvalidInterfaces) {
  const std::string head = "clusters: 2\nwire: dpdk\ndpdk:\n  kind: af_packet\n  interfaces:\n";
  const std::string zero = "    - {cluster: 0, interface: a, address: 10.98.0.1}\n";
  EXPECT_THAT(refusal("wire: dpdk\ndpdk: {kind: af_packet}\n"),
              HasSubstr("run.yaml:2:8: key 'dpdk.kind': cluster 0 of 2 has no interface"));
  EXPECT_THAT(refusal(head + zero), HasSubstr("cluster 1 of 2 has no interface"));
  EXPECT_THAT(refusal(head + zero + "    - {cluster: 0, interface: b, address: 10.98.1.1}\n"),
              HasSubstr("cluster 0 has 2 interfaces and nis is 1"));
  EXPECT_THAT(refusal(head + zero + "    - {cluster: 1, interface: b, address: 10.98.0.1}\n"),
              HasSubstr("two clusters have the address 10.98.0.1"));
  EXPECT_THAT(refusal(head + zero + "    - {cluster: 1, interface: a, address: 10.98.1.1}\n"),
              HasSubstr("two clusters have the interface a"));
  EXPECT_THAT(refusal(head + "    - {cluster: 0, address: 10.98.0.1}\n"),
              HasSubstr("run.yaml:6:7: key 'dpdk.interfaces[0]': has no 'interface'; add it"));
  EXPECT_THAT(refusal(head + "    - {cluster: 0, iface: a, address: 10.98.0.1}\n"),
              HasSubstr("key 'dpdk.interfaces[0].iface': is not known"));
  EXPECT_THAT(
      refusal(head + "    - {cluster: 0, interface: a, address: 10.98.0}\n"),
      HasSubstr(
          "key 'dpdk.interfaces[0].address': '10.98.0' is not allowed; allowed: one host's IPv4 address"));
  EXPECT_THAT(refusal(head + "    - {cluster: 0, interface: a, interface: b, address: 10.98.0.1}\n"),
              HasSubstr("key 'dpdk.interfaces[0].interface': is given twice"));
  EXPECT_THAT(refusal(head + "    - {cluster: 0, interface: \"a,b\", address: 10.98.0.1}\n"),
              HasSubstr("'a,b' is not allowed"));
  EXPECT_THAT(refusal(head + "    - {cluster: 0, interface: a, address: 10.98.0.1, steering: luck}\n"),
              HasSubstr("interfaces[0].steering': 'luck' is not allowed; allowed: auto, flow, rss, handoff"));
  EXPECT_THAT(refusal("dpdk:\n  interfaces:\n" + zero), HasSubstr("memif uses no interfaces; remove them"));
  EXPECT_EQ(refusal(head + zero + "    - {cluster: 1, interface: b, address: 10.98.1.1}\n"), "(accepted)");
}

TEST(RunConfig, RefusesFragmentsOverAWireThatPutsThemTogether) {  // IP-2
  const std::string interfaces =
      "clusters: 2\nwire: dpdk\ndpdk:\n  kind: af_packet\n  interfaces:\n"
      "    - {cluster: 0, interface: a, address: 10.98.0.1}\n    - {cluster: 1, interface: b, address: 10.98.0.2}\n";
  EXPECT_EQ(
      refusal(interfaces + "transport:\n  fragmentation: ip\n"),
      "run.yaml:9:3: key 'transport.fragmentation': ip is not possible over af_packet: the kernel puts "
      "fragments together before they arrive and cuts the result, so no long packet would be received; take "
      "transport, or another wire");
  EXPECT_EQ(refusal(interfaces + "transport: {fragmentation: transport}\n"), "(accepted)");
  EXPECT_EQ(refusal("wire: dpdk\ntransport: {fragmentation: ip}\n"), "(accepted)") << "over memif";
  for (const char* const wire : {"af_xdp", "af_packet"})
    EXPECT_THAT(refusal(fmt::format("wire: {}\ntransport: {{fragmentation: ip}}\n", wire)),
                HasSubstr("ip is not possible at an interface that keeps the kernel's address"));
  settings::Collector<settings::RunConfig> flag;
  ASSERT_TRUE(settings::load_yaml(flag, interfaces, "run.yaml").ok());
  ASSERT_TRUE(flag.set("transport.fragmentation", "ip", "--fragmentation:").ok());
  EXPECT_THAT(flag.finish().error().text, StartsWith("--fragmentation: ip is not possible over af_packet"));
}

TEST(RunConfig, InvalidYamlIsRefused) {
  EXPECT_THAT(refusal("clusters: [1\n"), AllOf(StartsWith("run.yaml:"), HasSubstr("not YAML")));
  EXPECT_THAT(refusal("- 1\n- 2\n"),
              HasSubstr("run.yaml:1:1: the file must be a list of 'key: value' lines"));
  EXPECT_THAT(refusal("clusters: 2\n---\nclusters: 3\n"), HasSubstr("has several documents"));
  EXPECT_THAT(refusal("[1, 2]: 3\n"), HasSubstr("a key must be one word"));
}

TEST(RunConfig, RefusesAFileThatCannotBeRead) {
  settings::Collector<settings::RunConfig> builder;
  EXPECT_THAT(settings::load_yaml_file(builder, "/nonexistent/run.yaml").error().text,
              HasSubstr("/nonexistent/run.yaml: cannot be read (No such file or directory)"));
  EXPECT_THAT(settings::load_yaml_file(builder, "/").error().text, HasSubstr("/: cannot be read"));
}

TEST(RunConfig, FlagsOverrideTheFile) {
  settings::Collector<settings::RunConfig> builder;
  ASSERT_TRUE(settings::load_yaml(builder, "clusters: 4\nproxies: 3\n", "run.yaml").ok());
  ASSERT_TRUE(builder.set("clusters", "8", "--clusters:").ok());
  const Result<settings::RunConfig> config = builder.finish();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->clusters, 8u);
  EXPECT_EQ(config->proxies, 3u);
}

TEST(RunConfig, WrongFlagIsNamed) {
  settings::Collector<settings::RunConfig> builder;
  EXPECT_EQ(
      builder.set("clusters", "1099", "--clusters:").error().text,
      "--clusters: 1099 is out of range; allowed: 1 to 1024; for more compute nodes take larger clusters "
      "('compute')");
  ASSERT_TRUE(builder.set("wire", "dpdk", "--wire:").ok());
  ASSERT_TRUE(builder.set("transport.mtu_bytes", "4000", "--mtu:").ok());
  EXPECT_EQ(builder.finish().error().text,
            "--mtu: 4000 is too long for wire dpdk; allowed: 576 to 1500, or take wire shm");
  ASSERT_TRUE(builder.set("wire", "af_xdp", "--wire:").ok());
  EXPECT_EQ(
      builder.finish().error().text,
      "--mtu: 4000 is too long for wire af_xdp, whose frames fit a page; allowed: 576 to 3826, or take wire udp");
}

TEST(RunConfig, ContradictionOfOptionAndFileNamesTheOption) {
  settings::Collector<settings::RunConfig> builder;
  ASSERT_TRUE(settings::load_yaml(builder, "transport:\n  mtu_bytes: 4000\n", "run.yaml").ok());
  ASSERT_TRUE(builder.set("wire", "dpdk", "--wire:").ok());
  EXPECT_THAT(builder.finish().error().text,
              StartsWith("run.yaml:2:3: key 'transport.mtu_bytes': 4000 is too long"));
}

TEST(RunConfig, AutoFollowsTheWireAndTheCores) {
  settings::RunConfig config;
  EXPECT_EQ(config.mtu_bytes(), 9000u);
  config.wire = settings::Wire::kDpdk;
  EXPECT_EQ(config.mtu_bytes(), 1500u);
  config.wire = settings::Wire::kXdp;
  EXPECT_EQ(config.mtu_bytes(), 3826u);
  config.clusters = 2;
  config.compute = 2;
  config.proxies = 1;
  EXPECT_EQ(config.spins(5), 0u) << "six threads";
  EXPECT_EQ(config.spins(6), settings::IdleConfig{}.spins);
  config.idle.spins = 50;
  EXPECT_EQ(config.spins(2), 50u);
}

// --- the files that come with the project

TEST(Configs, EveryFileLoads) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BRAID_CONFIGS)) {
    SCOPED_TRACE(entry.path());
    // The files of `braid study` and `braid fit` and the cost models have readers of their own.
    const std::string name = entry.path().filename();
    if (entry.is_directory() || name.starts_with("study-") || name.starts_with("fit-")) continue;
    file(name);
    ++files;
  }
  EXPECT_GE(files, 5);
}

TEST(Configs, DefaultFileEqualsTheBuiltInDefaults) {
  EXPECT_EQ(json_of(file("default.yaml")), json_of(settings::RunConfig{}));
}

TEST(Configs, DefaultNamesEverySetting) {
  std::ifstream in(config_path("default.yaml"));
  std::stringstream text;
  text << in.rdbuf();
  for (const settings::Listed& listed : settings::all_settings(settings::kRunSchema))
    EXPECT_THAT(text.str(), HasSubstr(fmt::format("{}:", listed.setting->name)));
}

TEST(Configs, TwoByTwo) {
  const settings::RunConfig config = file("two-by-two.yaml");
  EXPECT_EQ(config.clusters, 2u);
  EXPECT_EQ(config.compute, 2u);
  EXPECT_EQ(config.proxies, 2u);
  EXPECT_EQ(config.dispatch, convergence::Dispatch::kRoundRobin);
  EXPECT_EQ(config.wire, settings::Wire::kShm);
}

TEST(Configs, Lossy) {
  const settings::RunConfig config = file("lossy.yaml");
  EXPECT_EQ(config.faults.loss, 0.01);
  EXPECT_EQ(config.faults.duplicate, 0.01);
  EXPECT_EQ(config.faults.reorder, 0.01);
  EXPECT_EQ(config.faults.corrupt, 0);
  EXPECT_EQ(config.faults.seed, 1u);
}

TEST(Configs, DpdkMemif) {
  const settings::RunConfig config = file("dpdk-memif.yaml");
  EXPECT_EQ(config.wire, settings::Wire::kDpdk);
  EXPECT_EQ(config.dpdk.kind, settings::DpdkKind::kMemif);
  EXPECT_EQ(config.mtu_bytes(), 1500u);
}

TEST(Configs, DpdkVeth) {
  const settings::RunConfig config = file("dpdk-veth.yaml");
  EXPECT_EQ(config.wire, settings::Wire::kDpdk);
  EXPECT_EQ(config.dpdk.kind, settings::DpdkKind::kAfPacket);
  ASSERT_EQ(config.dpdk.interfaces.size(), 2u);
  EXPECT_EQ(config.dpdk.interfaces[1].cluster, 1u);
  EXPECT_EQ(config.dpdk.interfaces[1].netns, "braid1");
  EXPECT_EQ(config.dpdk.interfaces[1].interface, "braid1");
  EXPECT_EQ(config.dpdk.interfaces[1].address, "10.98.1.1");
  EXPECT_EQ(config.dpdk.interfaces[1].mac, "02:62:72:64:00:01");
}

TEST(Nearest, FindsMisspellingsAndMissingSectionsOnly) {
  const std::vector<std::string> known = {"clusters", "compute", "transport.mtu_bytes"};
  EXPECT_EQ(nearest("cluster", known), "clusters");
  EXPECT_EQ(nearest("mtu_bytes", known), "transport.mtu_bytes");
  EXPECT_EQ(nearest("mtu", known), "transport.mtu_bytes");
  EXPECT_EQ(nearest("zzzzzz", known), std::nullopt);
}

}  // namespace
}  // namespace braid::cli
