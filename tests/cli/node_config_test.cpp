// The configuration of a daemon: written and read back unchanged; an invalid value is refused by name.
#include "proxy/daemon/node_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace braid::proxy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

NodeConfig two_clusters() {
  NodeConfig node;
  node.cluster = 1;
  node.clusters = 2;
  node.proxies = 2;
  node.address = "10.98.1.1";
  node.mac = "02:62:72:64:00:01";
  node.links.push_back({.kind = LinkConfig::Kind::kShm, .fd = 7, .first_side = false, .device = ""});
  node.peers.push_back({.cluster = 0,
                        .proxies = 4,
                        .address = "10.98.0.1",
                        .udp_port = 7700,
                        .mac = "02:62:72:64:00:00",
                        .link = 0});
  node.transport.mtu_bytes = 9000;
  node.transport.fragmentation = stack::Fragmentation::kIp;
  node.transport.congestion = stack::CongestionControl::kNone;
  node.faults.loss = 0.01;
  node.faults.drop_all_after = 99;
  node.faults.delay_ms = 20;
  node.faults.seed = 0xfedcba9876543210;
  node.idle.spins = 0;
  node.misdirect = true;
  node.eal_prefix = "braid-1";
  node.listen_fd = 5;
  node.ready_fd = 6;
  node.counters_fd = 8;
  node.seed = 42;
  node.capture_directory = "captures";
  node.capture_limit_mib = 7;
  node.processors = "3,1";
  node.security.mode = settings::SecurityMode::kOff;
  node.security.secret_file = "secret";
  return node;
}

std::string with(const std::function<void(Json&)>& change) {
  Json json = Json::parse(to_json(two_clusters()));
  change(json);
  return json.dump();
}

std::string refusal(const std::string& json) {
  const Result<NodeConfig> parsed = parse_node_config(json, "node.json");
  return parsed.ok() ? "(accepted)" : parsed.error().text;
}

// Clusters 1 and 2 of this node's three are on one other host.
NodeConfig two_on_another_host(std::uint16_t second_port) {
  NodeConfig node;
  node.clusters = 3;
  node.proxies = 2;
  node.address = "10.0.0.1";
  node.links.push_back({.kind = LinkConfig::Kind::kUdp, .device = ""});
  node.security.mode = settings::SecurityMode::kOff;
  node.peers.push_back({.cluster = 1, .proxies = 2, .address = "10.0.0.2", .udp_port = 7700, .mac = ""});
  node.peers.push_back(
      {.cluster = 2, .proxies = 2, .address = "10.0.0.2", .udp_port = second_port, .mac = ""});
  node.listen_fd = 5;
  return node;
}

TEST(NodeConfig, NodesOfAHostShareItsAddressWithPortsOfTheirOwn) {
  const Result<void> apart = two_on_another_host(7702).validate();
  EXPECT_TRUE(apart.ok()) << apart.error().text;
  for (const std::uint16_t port : {std::uint16_t{7699}, std::uint16_t{7700}, std::uint16_t{7701}}) {
    const Result<void> met = two_on_another_host(port).validate();
    ASSERT_FALSE(met.ok()) << port;
    EXPECT_THAT(met.error().text,
                HasSubstr("key 'peers[1].address': 10.0.0.2: another node has the same address and "
                          "the same ports; nodes that share an address need a udp_port each"));
  }
  NodeConfig node = two_on_another_host(7702);
  node.links[0] = {.kind = LinkConfig::Kind::kXdp, .device = ""};
  EXPECT_THAT(node.validate().error().text, HasSubstr("another NI has the same address"))
      << "an interface serves one";
  node.links[0] = {.kind = LinkConfig::Kind::kEthdev, .device = "net_null0"};
  const Result<void> no_kernel = node.validate();
  ASSERT_FALSE(no_kernel.ok());
  EXPECT_THAT(no_kernel.error().text, HasSubstr("another NI has the same address"));
}

TEST(NodeConfig, OtherMachinesMayComeInOnlyWhereTheyAreAuthenticated) {
  NodeConfig node = two_clusters();
  node.transport.fragmentation = stack::Fragmentation::kTransport;
  node.transport.mtu_bytes = 1500;
  node.machines.accept = true;
  EXPECT_EQ(refusal(to_json(node)), "(accepted)") << "over shared memory";
  node.links[0] = {.kind = LinkConfig::Kind::kEthdev, .device = "net_null0"};
  node.security.mode = settings::SecurityMode::kOff;
  EXPECT_THAT(
      refusal(to_json(node)),
      AllOf(HasSubstr(
                "node.json: key 'machines.accept': every machine that reaches UDP port 7699 could connect"),
            HasSubstr("security.secret_file")));
  node.machines.accept = false;
  node.machines.connect = true;
  EXPECT_EQ(refusal(to_json(node)), "(accepted)") << "only others let in";
  node.machines.accept = true;
  node.security.mode = settings::SecurityMode::kAuto;
  EXPECT_EQ(refusal(to_json(node)), "(accepted)");
}

TEST(NodeConfig, IsUnchangedAfterWritingAndReading) {
  const std::string written = to_json(two_clusters());
  const Result<NodeConfig> read = parse_node_config(written, "node.json");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->cluster, 1);
  EXPECT_EQ(read->proxies, 2);
  EXPECT_EQ(read->mac, "02:62:72:64:00:01");
  ASSERT_EQ(read->links.size(), 1u);
  EXPECT_EQ(read->links[0].kind, LinkConfig::Kind::kShm);
  EXPECT_EQ(read->links[0].fd, 7);
  EXPECT_FALSE(read->links[0].first_side);
  ASSERT_EQ(read->peers.size(), 1u);
  EXPECT_EQ(read->peers[0].proxies, 4);
  EXPECT_EQ(read->peers[0].udp_port, 7700);
  EXPECT_EQ(read->transport.mtu_bytes, 9000u);
  EXPECT_EQ(read->transport.fragmentation, stack::Fragmentation::kIp);
  EXPECT_EQ(read->transport.congestion, stack::CongestionControl::kNone);
  EXPECT_EQ(read->faults.loss, 0.01);
  EXPECT_EQ(read->faults.drop_all_after, 99u);
  EXPECT_EQ(read->faults.delay_ms, 20u);
  EXPECT_EQ(read->faults.seed, 0xfedcba9876543210u) << "64 bits survive";
  EXPECT_EQ(read->idle.spins, 0u);
  EXPECT_TRUE(read->misdirect);
  EXPECT_EQ(read->listen_fd, 5);
  EXPECT_EQ(read->counters_fd, 8);
  EXPECT_EQ(read->processors, "3,1");
  EXPECT_EQ(to_json(*read), written);
}

TEST(NodeConfig, MissingKeysHaveTheirDefaults) {
  const Result<NodeConfig> read =
      parse_node_config(R"({"address": "10.98.0.1", "listen_address": "@b"})", "node.json");
  ASSERT_TRUE(read.ok()) << read.error().text;
  const NodeConfig defaults;
  EXPECT_EQ(read->clusters, defaults.clusters);
  EXPECT_EQ(read->udp_port, defaults.udp_port);
  EXPECT_EQ(read->transport.window_packets, defaults.transport.window_packets);
  EXPECT_EQ(read->idle.sleep_max_us, defaults.idle.sleep_max_us);
}

TEST(NodeConfig, ReadsDevicesOfDpdk) {
  const Result<NodeConfig> read = parse_node_config(
      with([](Json& j) {
        j["links"][0] = {{"kind", "ethdev"}, {"device", "net_memif0,role=client"}, {"steering", "rss"}};
      }),
      "node.json");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->links[0].kind, LinkConfig::Kind::kEthdev);
  EXPECT_EQ(read->links[0].device, "net_memif0,role=client");
  EXPECT_EQ(read->links[0].steering, Steering::kRss);
}

TEST(NodeConfig, UnknownKeysAndWordsAreRefused) {
  EXPECT_EQ(refusal(with([](Json& j) { j["idle"]["naps"] = 3; })),
            "node.json: key 'idle.naps': is not known; known here: spins, yields, wakeups, sleep_min_us, "
            "sleep_max_us");
  EXPECT_THAT(
      refusal(with([](Json& j) { j["peers"][0]["port"] = 3; })),
      HasSubstr(
          "key 'peers[0].port': is not known; known here: cluster, proxies, address, udp_port, mac, link"));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"][0]["kind"] = "rdma"; })),
              HasSubstr("key 'links[0].kind': 'rdma' is not allowed; allowed: shm, ethdev"));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"][0]["steering"] = "luck"; })),
              HasSubstr("'luck' is not allowed; allowed: auto, flow, rss, handoff"));
  for (const char* const steering : {"flow", "rss"})
    EXPECT_THAT(
        refusal(with([&](Json& j) { j["links"][0]["steering"] = steering; })),
        HasSubstr(
            "key 'links[0].steering': only an ethdev link has a NIC that can steer packets; set auto or handoff"));
}

TEST(NodeConfig, DuplicateKeyIsRefused) {
  EXPECT_EQ(refusal(R"({"proxies": 1, "proxies": 2})"),
            "node.json: key 'proxies': is given twice; remove one of them");
  EXPECT_THAT(refusal(R"({"idle": {"spins": 1, "spins": 2}})"),
              HasSubstr("key 'idle.spins': is given twice"));
}

TEST(NodeConfig, RefusesAWrongType) {
  EXPECT_EQ(refusal(with([](Json& j) { j["proxies"] = "two"; })),
            "node.json: key 'proxies': \"two\" is a string; write it without quotes; allowed: 1 to 32");
  EXPECT_THAT(refusal(with([](Json& j) { j["proxies"] = 1.5; })),
              HasSubstr("key 'proxies': '1.5' is not a whole number; allowed: 1 to 32"));
  EXPECT_THAT(
      refusal(with([](Json& j) { j["transport"]["peer_death_ms"] = 200'000; })),
      HasSubstr(
          "key 'transport.peer_death_ms': 200000 is out of range; allowed: 1 to 137000, because packets' "
          "timestamps repeat after twice that time"))
      << "a sub-connection could not tell so long a time";
  EXPECT_THAT(refusal(with([](Json& j) { j["proxies"] = -1; })),
              HasSubstr("'-1' is not a whole number; allowed: 1 to 32"));
  EXPECT_THAT(refusal(with([](Json& j) { j["clusters"] = 65536; })),
              HasSubstr("key 'clusters': 65536 is out of range; allowed: 1 to 1024"));
  EXPECT_THAT(refusal(with([](Json& j) { j["misdirect"] = 1; })),
              HasSubstr("key 'misdirect': '1' is not allowed; allowed: true, false"));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"] = 1; })), HasSubstr("key 'links': must be a list"));
  EXPECT_THAT(refusal(with([](Json& j) { j["peers"][0] = 1; })), HasSubstr("key 'peers[0]': must be '{"));
  EXPECT_THAT(refusal(with([](Json& j) { j["faults"] = "none"; })),
              HasSubstr("key 'faults': is a section; put its keys below it: loss"));
  EXPECT_THAT(refusal(with([](Json& j) { j["address"] = 10; })),
              HasSubstr("key 'address': 10 is not a string; write it in quotes; allowed: one host's"));
  EXPECT_THAT(refusal(with([](Json& j) { j["faults"]["loss"] = "1%"; })),
              HasSubstr("key 'faults.loss': \"1%\" is a string; write it without quotes"));
  EXPECT_THAT(refusal(with([](Json& j) { j["transport"]["fragmentation"] = "tcp"; })),
              HasSubstr("key 'transport.fragmentation': 'tcp' is not allowed; allowed: transport, ip"));
  EXPECT_THAT(refusal("[]"), HasSubstr("node.json: must be an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("node.json: not JSON"));
}

TEST(NodeConfig, RefusesValuesThatContradictEachOther) {
  const std::pair<std::function<void(Json&)>, const char*> mistakes[] = {
      {[](Json& j) { j["clusters"] = 1025; }, "key 'clusters': 1025 is out of range; allowed: 1 to 1024"},
      {[](Json& j) { j["cluster"] = 2; }, "key 'cluster': 2 must be below clusters (2)"},
      {[](Json& j) { j["proxies"] = 33; }, "key 'proxies': 33 is out of range; allowed: 1 to 32"},
      {[](Json& j) { j["address"] = "10.98.1"; },
       "key 'address': '10.98.1' is not allowed; allowed: one host's IPv4 address"},
      {[](Json& j) { j["address"] = "224.0.0.1"; }, "key 'address': '224.0.0.1'"},
      {[](Json& j) { j["mac"] = "01:62:72:64:00:01"; },
       "key 'mac': '01:62:72:64:00:01' is not allowed; allowed: one station's address"},
      {[](Json& j) { j["udp_port"] = 65535; },
       "key 'udp_port': 65535 is out of range; allowed with 2 proxies: 1 to 65534"},
      {[](Json& j) { j["links"][0]["fd"] = -1; }, "key 'links[0].fd': is missing"},
      {[](Json& j) { j["links"][0]["kind"] = "ethdev"; }, "key 'links[0].device': is missing"},
      {[](Json& j) { j["peers"] = Json::array(); }, "key 'peers': 0 of 1 are given"},
      {[](Json& j) { j["peers"][0]["cluster"] = 1; }, "key 'peers[0].cluster': 1 must be another cluster"},
      {[](Json& j) { j["peers"][0]["address"] = "10.98.1.1"; }, "another NI has the same address"},
      {[](Json& j) { j["peers"][0]["link"] = 1; }, "key 'peers[0].link': 1: there are 1 links"},
      {[](Json& j) { j["transport"]["mtu_bytes"] = 575; },
       "key 'transport.mtu_bytes': '575' is not allowed; allowed: auto, or 576 to 9000"},
      {[](Json& j) { j["transport"]["window_packets"] = 257; },
       "key 'transport.window_packets': 257 is out of range; allowed: 1 to 256"},
      {[](Json& j) { j["transport"]["min_rto_us"] = 200'000; },
       "key 'transport.min_rto_us': min_rto_us (200000) is longer than max_rto_us (100000)"},
      {[](Json& j) { j["transport"]["path_death_ms"] = 1; },
       "key 'transport.path_death_ms': path_death_ms (1 ms) must be at least four times min_rto_us (500 us)"},
      {[](Json& j) { j["transport"]["path_death_ms"] = 10'000; },
       "must be longer than path_death_ms (10000)"},
      {[](Json& j) { j["faults"]["corrupt"] = 1.5; },
       "key 'faults.corrupt': 1.5 is out of range; allowed: a probability, 0 to 1"},
      {[](Json& j) { j["idle"]["sleep_min_us"] = 500; },
       "key 'idle.sleep_min_us': sleep_min_us (500) is longer than sleep_max_us (200)"},
      {[](Json& j) { j["listen_fd"] = -1; },
       "key 'listen_address': is missing: clients need a place to attach"},
      {[](Json& j) { j["listen_address"] = "@b"; }, "give only one of them"},
      {[](Json& j) { j["processors"] = "0-1"; },
       "key 'processors': '0-1' is not allowed; allowed: numbers of processors with commas between them"},
      {[](Json& j) { j["processors"] = "0"; },
       "key 'processors': '0' names 1, and there are 2 proxies: name one for each, or none"},
      {[](Json& j) { j["security"]["mode"] = "on"; },
       "key 'security.mode': 'on' is not allowed; allowed: auto, required, off"},
      {[](Json& j) { j["security"]["secret_fd"] = 4; },
       "key 'security.secret_file': is 'secret' and secret_fd is 4; give only one of them"},
  };
  for (const auto& [mistake, text] : mistakes) EXPECT_THAT(refusal(with(mistake)), HasSubstr(text));
}

TEST(NodeConfig, EachLinkMayHaveItsOwnAddress) {
  const auto on_link = [](const char* address, int bits, const char* gateway) {
    return refusal(with([=](Json& j) {
      j["links"][0].update(
          {{"address", address}, {"prefix_bits", bits}, {"gateway", gateway}, {"mac", "02:00:00:00:00:07"}});
    }));
  };
  EXPECT_EQ(on_link("", 0, ""), "(accepted)");
  EXPECT_EQ(on_link("10.98.0.7", 24, ""), "(accepted)") << "the peer is on the link";
  EXPECT_EQ(on_link("192.168.3.7", 24, "192.168.3.1"), "(accepted)") << "the peer is behind the gateway";
  EXPECT_THAT(
      on_link("192.168.3.7", 24, ""),
      HasSubstr("key 'peers[0].address': 10.98.0.1: is not on links[0] (192.168.3.7/24); give that link a "
                "gateway"));
  EXPECT_THAT(on_link("192.168.3.7", 24, "192.168.4.1"),
              HasSubstr("key 'links[0].gateway': 192.168.4.1 must be on the"));
  EXPECT_THAT(on_link("192.168.3.7", 0, "192.168.3.1"), HasSubstr("must be on the link: set prefix_bits"));
  EXPECT_THAT(on_link("192.168.3.7", 24, "192.168.3.7"), HasSubstr("must be another host's"));
  EXPECT_THAT(on_link("192.168.3", 24, ""), HasSubstr("key 'links[0].address': '192.168.3' is not allowed"));
  EXPECT_THAT(on_link("10.98.0.7", 33, ""),
              HasSubstr("key 'links[0].prefix_bits': 33 is out of range; allowed: 0 to 32"));
  EXPECT_THAT(on_link("10.98.0.1", 24, ""), HasSubstr("this node has the same address on links[0]"));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"][0]["mac"] = "01:00:00:00:00:07"; })),
              HasSubstr("key 'links[0].mac': '01:00:00:00:00:07' is not allowed"));
}

TEST(NodeConfig, SealedLinksNeedASecret) {
  using settings::SecurityMode;
  NodeConfig node = two_clusters();
  node.transport.fragmentation = stack::Fragmentation::kTransport;
  node.security = {};
  EXPECT_TRUE(node.validate().ok()) << "shared memory is not sealed";
  node.security.mode = SecurityMode::kRequired;
  EXPECT_THAT(
      node.validate().error().text,
      HasSubstr("key 'security.secret_file': is missing: packets of links[0] (shm) are encrypted and "
                "authenticated with a secret; make one with 'braid secret FILE', copy the file to every node "
                "and name it here, or set security.mode to off"));
  for (const LinkConfig::Kind kind : {LinkConfig::Kind::kUdp, LinkConfig::Kind::kEthdev,
                                      LinkConfig::Kind::kXdp, LinkConfig::Kind::kPacket}) {
    node.links[0] = {.kind = kind, .fd = -1, .first_side = true, .device = "net_tap0"};
    node.security = {};
    EXPECT_THAT(node.validate().error().text, HasSubstr("key 'security.secret_file': is missing"));
    node.security.mode = SecurityMode::kOff;
    EXPECT_TRUE(node.validate().ok()) << node.validate().error().text;
    node.security = {.mode = SecurityMode::kAuto, .secret_file = "secret", .keylog = ""};
    EXPECT_TRUE(node.validate().ok()) << node.validate().error().text;
    node.security = {.mode = SecurityMode::kAuto, .secret_file = "", .secret_fd = 9, .keylog = ""};
    EXPECT_TRUE(node.validate().ok()) << node.validate().error().text;
  }
}

TEST(NodeConfig, TheSecretItselfIsNotWritten) {
  NodeConfig node = two_clusters();
  stack::KeyBytes bytes;
  bytes.fill(std::byte{'s'});
  const std::string without = to_json(node);
  node.secret = std::make_shared<const stack::Secret>(bytes);
  EXPECT_EQ(to_json(node), without);
}

TEST(NodeConfig, ShmLinkWithTwoPeersIsRefused) {
  NodeConfig node = two_clusters();
  node.clusters = 3;
  PeerConfig third = node.peers[0];
  third.cluster = 2;
  third.address = "10.98.2.1";
  node.peers.push_back(third);
  EXPECT_THAT(node.validate().error().text, HasSubstr("key 'peers[1].link': 0: a shm link connects two NIs"));
  node.links[0] = {.kind = LinkConfig::Kind::kEthdev, .fd = -1, .first_side = true, .device = "net_tap0"};
  EXPECT_TRUE(node.validate().ok()) << "a switched network joins many";
  node.peers[1].cluster = 0;
  EXPECT_THAT(node.validate().error().text, HasSubstr("two peers have this cluster"));
}

TEST(NodeConfig, LinkThatPutsFragmentsTogetherIsRefusedWithFragmentationByIp) {  // IP-2
  NodeConfig node = two_clusters();
  node.transport.fragmentation = stack::Fragmentation::kIp;
  EXPECT_TRUE(node.validate().ok()) << node.validate().error().text;
  node.links[0] = {.kind = LinkConfig::Kind::kEthdev,
                   .fd = -1,
                   .first_side = true,
                   .device = "net_af_packet0,iface=veth0,qpairs=1"};
  EXPECT_THAT(node.validate().error().text,
              HasSubstr("key 'transport.fragmentation': ip is not possible over af_packet"));
  for (const LinkConfig::Kind kind : {LinkConfig::Kind::kXdp, LinkConfig::Kind::kPacket}) {
    node.links[0] = {.kind = kind, .fd = -1, .first_side = true, .device = ""};
    EXPECT_THAT(node.validate().error().text,
                HasSubstr("key 'transport.fragmentation': ip is not possible at an interface that keeps the "
                          "kernel's address"));
  }
  node.transport.fragmentation = stack::Fragmentation::kTransport;
  EXPECT_TRUE(node.validate().ok()) << node.validate().error().text;
}

}  // namespace
}  // namespace braid::proxy
