// What a daemon is told: written and read back unchanged, and refused by name when it cannot be meant.
#include "proxy/daemon/node_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace braid::proxy {
namespace {

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

TEST(NodeConfig, ComesBackAsItWasWritten) {
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
  EXPECT_EQ(read->faults.seed, 0xfedcba9876543210u) << "64 bits survive";
  EXPECT_EQ(read->idle.spins, 0u);
  EXPECT_TRUE(read->misdirect);
  EXPECT_EQ(read->listen_fd, 5);
  EXPECT_EQ(read->counters_fd, 8);
  EXPECT_EQ(to_json(*read), written);
}

TEST(NodeConfig, TakesTheDefaultOfEveryKeyThatIsNotThere) {
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

TEST(NodeConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal(with([](Json& j) { j["idle"]["naps"] = 3; })),
            "node.json: key 'idle.naps' is not known; known here: sleep_max_us, sleep_min_us, spins, yields");
  EXPECT_THAT(refusal(with([](Json& j) { j["peers"][0]["port"] = 3; })),
              HasSubstr("key 'peers[0].port' is not known"));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"][0]["kind"] = "rdma"; })),
              HasSubstr("key 'links[0].kind' must be \"shm\" or \"ethdev\", not \"rdma\""));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"][0]["steering"] = "luck"; })), HasSubstr("not \"luck\""));
  for (const char* const steering : {"flow", "rss"})
    EXPECT_THAT(refusal(with([&](Json& j) { j["links"][0]["steering"] = steering; })),
                HasSubstr("links[0].steering: a shm link has no NIC that could steer: say auto or handoff"));
}

TEST(NodeConfig, RefusesAKeyThatIsThereTwice) {
  EXPECT_EQ(refusal(R"({"proxies": 1, "proxies": 2})"),
            "node.json: key 'proxies' is there twice in one object; remove one of them");
  EXPECT_THAT(refusal(R"({"idle": {"spins": 1, "spins": 2}})"), HasSubstr("key 'spins' is there twice"));
}

TEST(NodeConfig, RefusesAWrongType) {
  EXPECT_EQ(refusal(with([](Json& j) { j["proxies"] = "two"; })),
            "node.json: key 'proxies' must be a whole number from 0 to 65535, not \"two\"");
  EXPECT_THAT(refusal(with([](Json& j) { j["proxies"] = 1.5; })), HasSubstr("not 1.5"));
  EXPECT_THAT(refusal(with([](Json& j) { j["transport"]["peer_death_ms"] = 200'000; })),
              HasSubstr("transport.peer_death_ms is 200000: must be at most 137000"))
      << "a sub-connection could not tell so long a time";
  EXPECT_THAT(refusal(with([](Json& j) { j["proxies"] = -1; })), HasSubstr("not -1"));
  EXPECT_THAT(refusal(with([](Json& j) { j["clusters"] = 65536; })), HasSubstr("not 65536"));
  EXPECT_THAT(refusal(with([](Json& j) { j["misdirect"] = 1; })),
              HasSubstr("key 'misdirect' must be true or false"));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"] = 1; })), HasSubstr("key 'links' must be an array"));
  EXPECT_THAT(refusal(with([](Json& j) { j["peers"][0] = 1; })),
              HasSubstr("key 'peers[0]' must be an object"));
  EXPECT_THAT(refusal(with([](Json& j) { j["faults"] = "none"; })),
              HasSubstr("key 'faults' must be an object"));
  EXPECT_THAT(refusal(with([](Json& j) { j["address"] = 10; })), HasSubstr("key 'address' must be a string"));
  EXPECT_THAT(refusal(with([](Json& j) { j["faults"]["loss"] = "1%"; })), HasSubstr("must be a number"));
  EXPECT_THAT(refusal(with([](Json& j) { j["transport"]["fragmentation"] = "tcp"; })),
              HasSubstr("key 'transport.fragmentation' must be \"transport\" or \"ip\", not \"tcp\""));
  EXPECT_THAT(refusal("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("node.json: not JSON"));
}

TEST(NodeConfig, RefusesRelationsThatCannotHold) {
  const std::pair<std::function<void(Json&)>, const char*> mistakes[] = {
      {[](Json& j) { j["clusters"] = 65; }, "clusters is 65: must be 1 to 64"},
      {[](Json& j) { j["cluster"] = 2; }, "cluster is 2: must be below clusters (2)"},
      {[](Json& j) { j["proxies"] = 33; }, "proxies is 33: must be 1 to 32"},
      {[](Json& j) { j["address"] = "10.98.1"; }, "address is '10.98.1': must be one host's IPv4 address"},
      {[](Json& j) { j["address"] = "224.0.0.1"; }, "address is '224.0.0.1'"},
      {[](Json& j) { j["mac"] = "01:62:72:64:00:01"; },
       "mac is '01:62:72:64:00:01': must be one station's address"},
      {[](Json& j) { j["udp_port"] = 65535; }, "udp_port is 65535: with 2 proxies it must be 1 to 65534"},
      {[](Json& j) { j["links"][0]["fd"] = -1; }, "links[0].fd is missing"},
      {[](Json& j) { j["links"][0]["kind"] = "ethdev"; }, "links[0].device is missing"},
      {[](Json& j) { j["peers"] = Json::array(); }, "peers: 0 of 1 are there"},
      {[](Json& j) { j["peers"][0]["cluster"] = 1; }, "peers[0].cluster is 1: must be another cluster"},
      {[](Json& j) { j["peers"][0]["address"] = "10.98.1.1"; },
       "another node, or another of its NIs, has it too"},
      {[](Json& j) { j["peers"][0]["link"] = 1; }, "peers[0].link is 1: there are 1 links"},
      {[](Json& j) { j["transport"]["mtu_bytes"] = 575; }, "transport.mtu_bytes is 575: must be 576 to 9000"},
      {[](Json& j) { j["transport"]["window_packets"] = 257; }, "window_packets is 257: must be 1 to 256"},
      {[](Json& j) { j["transport"]["min_rto_us"] = 200'000; },
       "min_rto_us is 200000: must be 1 to max_rto_us"},
      {[](Json& j) { j["transport"]["path_death_ms"] = 100; }, "must be longer than max_rto_us"},
      {[](Json& j) { j["transport"]["path_death_ms"] = 10'000; }, "must be longer than path_death_ms"},
      {[](Json& j) { j["faults"]["corrupt"] = 1.5; }, "faults.corrupt is 1.5: a probability is 0 to 1"},
      {[](Json& j) { j["idle"]["sleep_min_us"] = 500; },
       "idle.sleep_min_us is 500: must be 1 to sleep_max_us"},
      {[](Json& j) { j["listen_fd"] = -1; }, "listen_address is missing"},
      {[](Json& j) { j["listen_address"] = "@b"; }, "give one of them"},
  };
  for (const auto& [mistake, text] : mistakes) EXPECT_THAT(refusal(with(mistake)), HasSubstr(text));
}

TEST(NodeConfig, ALinkMayHaveAnAddressOfItsOwn) {
  const auto on_link = [](const char* address, int bits, const char* gateway) {
    return refusal(with([=](Json& j) {
      j["links"][0].update(
          {{"address", address}, {"prefix_bits", bits}, {"gateway", gateway}, {"mac", "02:00:00:00:00:07"}});
    }));
  };
  EXPECT_EQ(on_link("", 0, ""), "(accepted)");
  EXPECT_EQ(on_link("10.98.0.7", 24, ""), "(accepted)") << "the peer is on the link";
  EXPECT_EQ(on_link("192.168.3.7", 24, "192.168.3.1"), "(accepted)") << "the peer is behind the gateway";
  EXPECT_THAT(on_link("192.168.3.7", 24, ""),
              HasSubstr("peers[0].address is 10.98.0.1: not on links[0] (192.168.3.7/24): give that link a "
                        "gateway"));
  EXPECT_THAT(on_link("192.168.3.7", 24, "192.168.4.1"), HasSubstr("gateway is 192.168.4.1: must be on the"));
  EXPECT_THAT(on_link("192.168.3.7", 0, "192.168.3.1"), HasSubstr("must be on the link: set prefix_bits"));
  EXPECT_THAT(on_link("192.168.3.7", 24, "192.168.3.7"), HasSubstr("must be another host's"));
  EXPECT_THAT(on_link("192.168.3", 24, ""), HasSubstr("links[0].address is '192.168.3'"));
  EXPECT_THAT(on_link("10.98.0.7", 33, ""), HasSubstr("links[0].prefix_bits is 33: must be 0 to 32"));
  EXPECT_THAT(on_link("10.98.0.1", 24, ""), HasSubstr("this node has it on links[0]"));
  EXPECT_THAT(refusal(with([](Json& j) { j["links"][0]["mac"] = "01:00:00:00:00:07"; })),
              HasSubstr("links[0].mac is '01:00:00:00:00:07'"));
}

TEST(NodeConfig, LetsNoTwoPeersShareAMemoryWire) {
  NodeConfig node = two_clusters();
  node.clusters = 3;
  PeerConfig third = node.peers[0];
  third.cluster = 2;
  third.address = "10.98.2.1";
  node.peers.push_back(third);
  EXPECT_THAT(node.validate().error().text, HasSubstr("peers[1].link is 0: a shm link joins two NIs only"));
  node.links[0] = {.kind = LinkConfig::Kind::kEthdev, .fd = -1, .first_side = true, .device = "net_tap0"};
  EXPECT_TRUE(node.validate().ok()) << "a switched network joins many";
  node.peers[1].cluster = 0;
  EXPECT_THAT(node.validate().error().text, HasSubstr("that peer is there twice"));
}

}  // namespace
}  // namespace braid::proxy
