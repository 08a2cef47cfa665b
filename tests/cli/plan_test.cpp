// From a run's settings to its parts: wires that connect, addresses that differ, environments that identify their
// clusters.
#include "tools/braid/run/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "dsm/live/environment.h"
#include "tools/braid/run/port_claims.h"

namespace braid::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

settings::RunConfig clusters(unsigned n) {
  settings::RunConfig config;
  config.clusters = n;
  return config;
}

TEST(Plan, JoinsEveryPairOfClustersOnce) {
  std::vector<proxy::NodeConfig> nodes = plan_nodes(clusters(4), "run", 2);
  std::set<const proxy::LinkConfig*> seen;
  const std::vector<WireEnds> wires = shm_wires(nodes);
  EXPECT_EQ(wires.size(), 6u);
  for (const WireEnds& wire : wires) {
    EXPECT_TRUE(wire.first->first_side);
    EXPECT_FALSE(wire.second->first_side);
    EXPECT_TRUE(seen.insert(wire.first).second);
    EXPECT_TRUE(seen.insert(wire.second).second);
  }
  std::vector<proxy::NodeConfig> alone = plan_nodes(clusters(1), "run", 2);
  EXPECT_TRUE(shm_wires(alone).empty());
}

// Three clusters on two hosts: those of one host are joined by shared memory, the others by the hosts' addresses.
TEST(Plan, AWireForEachWayBetweenHosts) {
  settings::RunConfig config = clusters(3);
  config.wire = settings::Wire::kUdp;
  config.proxies = 2;
  config.nis = 2;
  const std::vector<Host> hosts = {
      {.name = "a", .addresses = {"10.0.0.1", "10.0.1.1"}, .first_cluster = 0, .clusters = 2},
      {.name = "b", .addresses = {"10.0.0.2", "10.0.1.2"}, .first_cluster = 2, .clusters = 1}};
  std::vector<proxy::NodeConfig> nodes = plan_nodes_of_hosts(config, "run", hosts);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].address, "10.0.0.1");
  EXPECT_EQ(nodes[1].address, "10.0.0.1");
  EXPECT_NE(nodes[0].udp_port, nodes[1].udp_port);
  std::vector<proxy::NodeConfig> of_a = {nodes[0], nodes[1]};
  EXPECT_EQ(shm_wires(of_a).size(), 2u) << "one for each NI";
  for (const proxy::NodeConfig& node : nodes) {
    for (const proxy::PeerConfig& peer : node.peers) {
      const bool same_host = node.cluster < 2 && peer.cluster < 2;
      for (std::size_t n = 0; n < 2; ++n) {
        const proxy::NiConfig ni = peer.ni(n);
        EXPECT_EQ(node.links[ni.link].kind,
                  same_host ? proxy::LinkConfig::Kind::kShm : proxy::LinkConfig::Kind::kUdp);
        const std::string expected = hosts[peer.cluster / 2].addresses[n];
        EXPECT_EQ(ni.address == expected, !same_host) << ni.address;
      }
      EXPECT_EQ(peer.udp_port, nodes[peer.cluster].udp_port);
    }
  }
  config.wire = settings::Wire::kXdp;
  const std::vector<proxy::NodeConfig> over_xdp = plan_nodes_of_hosts(config, "run", hosts);
  EXPECT_EQ(over_xdp[2].links[0].kind, proxy::LinkConfig::Kind::kXdp);
  EXPECT_EQ(over_xdp[2].peers[0].ni(1).address, "10.0.1.1");
  for (proxy::NodeConfig& node : nodes) {
    node.listen_fd = 3;
    node.security.mode = settings::SecurityMode::kOff;  // the secret is in no plan
    for (proxy::LinkConfig& link : node.links)
      if (link.kind == proxy::LinkConfig::Kind::kShm) link.fd = 4;
    const Result<void> valid = node.validate();
    EXPECT_TRUE(valid.ok()) << valid.error().text;
  }
}

TEST(Plan, HostsMayHaveOtherNumbersOfProxies) {
  settings::RunConfig config = clusters(3);
  config.wire = settings::Wire::kUdp;
  config.proxies = 2;
  const std::vector<Host> hosts = {
      {.name = "a", .addresses = {"10.0.0.1"}, .proxies = 3, .first_cluster = 0, .clusters = 2},
      {.name = "b", .addresses = {"10.0.0.2"}, .first_cluster = 2, .clusters = 1}};
  for (const proxy::NodeConfig& node : plan_nodes_of_hosts(config, "run", hosts)) {
    EXPECT_EQ(node.proxies, node.cluster < 2 ? 3 : 2);
    for (const proxy::PeerConfig& peer : node.peers) EXPECT_EQ(peer.proxies, peer.cluster < 2 ? 3 : 2);
  }
}

TEST(Plan, HostsMayHaveOtherNumbersOfAddresses) {
  settings::RunConfig config = clusters(4);
  config.wire = settings::Wire::kUdp;
  const std::vector<Host> hosts = {
      {.name = "a", .addresses = {"10.0.0.1", "10.0.1.1"}, .first_cluster = 0, .clusters = 2},
      {.name = "b", .addresses = {"10.0.0.2"}, .first_cluster = 2, .clusters = 1},
      {.name = "c", .addresses = {"10.0.0.3", "10.0.1.3", "10.0.2.3"}, .first_cluster = 3, .clusters = 1}};
  const std::size_t expected[4][4] = {{0, 2, 1, 2}, {2, 0, 1, 2}, {1, 1, 0, 1}, {2, 2, 1, 0}};
  const std::size_t sockets[] = {2, 2, 1, 3};
  for (const proxy::NodeConfig& node : plan_nodes_of_hosts(config, "run", hosts)) {
    EXPECT_EQ(std::count_if(node.links.begin(), node.links.end(),
                            [](const auto& link) { return link.kind == proxy::LinkConfig::Kind::kUdp; }),
              sockets[node.cluster]);
    for (const proxy::PeerConfig& peer : node.peers) {
      ASSERT_EQ(peer.nis(), expected[node.cluster][peer.cluster]) << node.cluster << " to " << peer.cluster;
      if (node.cluster + peer.cluster == 1) continue;  // by shared memory
      for (std::size_t n = 0; n < peer.nis(); ++n) EXPECT_EQ(peer.ni(n).link, n) << "both ends on network n";
    }
  }
}

TEST(Plan, KeysOfOneHostAreInOneFileAndThoseOfHostsInOneForEachNode) {
  settings::RunConfig config = clusters(2);
  config.wire = settings::Wire::kUdp;
  const std::vector<Host> hosts = {
      {.name = "a", .addresses = {"10.0.0.1"}, .first_cluster = 0, .clusters = 1},
      {.name = "b", .addresses = {"10.0.0.2"}, .first_cluster = 1, .clusters = 1}};
  const auto files = [&](const std::vector<proxy::NodeConfig>& nodes) {
    return nodes[0].security.keylog + " " + nodes[1].security.keylog;
  };
  EXPECT_EQ(files(plan_nodes(config, "run", 2)), " ");
  EXPECT_EQ(files(plan_nodes_of_hosts(config, "run", hosts)), " ");
  config.security.keylog = "/tmp/keys";
  EXPECT_EQ(files(plan_nodes(config, "run", 2)), "/tmp/keys /tmp/keys");
  EXPECT_EQ(files(plan_nodes_of_hosts(config, "run", hosts)), "/tmp/keys.cluster0 /tmp/keys.cluster1");
}

TEST(Plan, NodesAgreeOnEachOther) {
  settings::RunConfig config = clusters(3);
  config.proxies = 2;
  config.transport.mtu_bytes = 1400;
  const std::vector<proxy::NodeConfig> nodes = plan_nodes(config, "run", 2);
  ASSERT_EQ(nodes.size(), 3u);
  for (const proxy::NodeConfig& node : nodes) {
    EXPECT_EQ(node.clusters, 3);
    EXPECT_EQ(node.proxies, 2);
    EXPECT_EQ(node.transport.mtu_bytes, 1400u);
    EXPECT_EQ(node.peers.size(), 2u);
    for (const proxy::PeerConfig& peer : node.peers) {
      const proxy::NodeConfig& other = nodes[peer.cluster];
      EXPECT_EQ(peer.address, other.address);
      EXPECT_EQ(peer.mac, other.mac);
      EXPECT_EQ(peer.udp_port, other.udp_port);
      EXPECT_EQ(peer.proxies, other.proxies);
      EXPECT_EQ(node.links[peer.link].first_side, node.cluster < peer.cluster) << "one side is the first";
    }
  }
  EXPECT_EQ(nodes[2].address, "10.98.2.1");
  EXPECT_EQ(nodes[2].mac, "02:62:72:64:00:02");
}

TEST(Plan, PlanIsAcceptedByTheDaemon) {
  for (const unsigned n : {1u, 2u, 5u, 64u}) {
    for (proxy::NodeConfig& node : plan_nodes(clusters(n), "run", 2)) {
      node.listen_fd = 3;
      for (proxy::LinkConfig& link : node.links) link.fd = 4;
      const Result<void> valid = node.validate();
      EXPECT_TRUE(valid.ok()) << valid.error().text;
    }
  }
}

TEST(Plan, MemifEndsMatchAndDifferBetweenRuns) {
  settings::RunConfig config = clusters(3);
  config.wire = settings::Wire::kDpdk;
  const auto nodes = plan_nodes(config, "run-a", 2);
  EXPECT_EQ(nodes[1].links[0].device,
            "net_memif0,role=client,id=0,socket-abstract=yes,socket=run-a-0-1-0,zero-copy=no,bsize=2048");
  EXPECT_EQ(nodes[1].links[1].device,
            "net_memif1,role=server,id=0,socket-abstract=yes,socket=run-a-1-2-0,zero-copy=no,bsize=2048");
  EXPECT_THAT(nodes[2].links[1].device, HasSubstr("role=client"));
  EXPECT_THAT(nodes[2].links[1].device, HasSubstr("socket=run-a-1-2"));
  EXPECT_THAT(plan_nodes(config, "run-b", 2)[1].links[0].device, HasSubstr("socket=run-b-0-1"));
  EXPECT_EQ(nodes[0].transport.mtu_bytes, 1500u);
  EXPECT_NE(nodes[0].eal_prefix, nodes[1].eal_prefix);
}

TEST(Plan, EachNiOfAClusterHasAnAddressAndALinkOfItsOwnToEveryOther) {
  settings::RunConfig config;
  config.clusters = 3;
  config.proxies = 4;
  config.nis = 2;
  const std::vector<proxy::NodeConfig> nodes = plan_nodes(config, "run-a", 2);
  const proxy::NodeConfig& node = nodes[1];
  ASSERT_EQ(node.links.size(), 4u);
  ASSERT_EQ(node.peers.size(), 2u);
  const proxy::PeerConfig& last = node.peers[1];
  EXPECT_EQ(last.cluster, 2);
  ASSERT_EQ(last.nis(), 2u);
  EXPECT_EQ(last.ni(0).address, nodes[2].address);
  EXPECT_EQ(last.ni(0).link, 2);
  EXPECT_EQ(last.ni(1).link, 3);
  // A peer knows an NI by its node's addresses on that link.
  EXPECT_EQ(last.ni(1).address, nodes[2].links[3].address);
  EXPECT_EQ(last.ni(1).mac, nodes[2].links[3].mac);
  EXPECT_NE(last.ni(1).address, last.ni(0).address);
  for (proxy::NodeConfig n : nodes) {
    n.listen_address = "@somewhere";
    for (proxy::LinkConfig& link : n.links) link.fd = 3;
    EXPECT_TRUE(n.validate().ok()) << n.validate().error().text;
  }
}

TEST(Plan, InterfaceIsOneLinkToAllPeersWithArp) {
  settings::RunConfig config = clusters(3);
  config.wire = settings::Wire::kDpdk;
  config.dpdk.kind = settings::DpdkKind::kAfPacket;
  config.proxies = 4;
  for (unsigned k = 0; k < 3; ++k) {
    config.dpdk.interfaces.push_back({.cluster = k,
                                      .netns = "",
                                      .interface = "veth" + std::to_string(k),
                                      .address = "192.168.7." + std::to_string(k + 1),
                                      .mac = ""});
  }
  config.dpdk.interfaces[1].steering = proxy::Steering::kHandoff;
  const auto nodes = plan_nodes(config, "run", 2);
  ASSERT_EQ(nodes[1].links.size(), 1u);
  EXPECT_EQ(nodes[0].links[0].steering, proxy::Steering::kAuto);
  EXPECT_EQ(nodes[1].links[0].steering, proxy::Steering::kHandoff);
  EXPECT_THAT(nodes[1].links[0].device, HasSubstr("net_af_packet0,iface=veth1,qpairs=4"));
  EXPECT_EQ(nodes[1].address, "192.168.7.2");
  ASSERT_EQ(nodes[1].peers.size(), 2u);
  EXPECT_EQ(nodes[1].peers[1].address, "192.168.7.3");
  EXPECT_EQ(nodes[1].peers[1].link, 0);
  EXPECT_EQ(nodes[1].peers[1].mac, "");
}

TEST(Plan, AConfiguredStationIsStaticAtItsPeers) {  // ARP-3
  settings::RunConfig config = clusters(3);
  config.wire = settings::Wire::kDpdk;
  config.dpdk.kind = settings::DpdkKind::kAfPacket;
  for (unsigned k = 0; k < 3; ++k)
    config.dpdk.interfaces.push_back({.cluster = k,
                                      .netns = "",
                                      .interface = "veth" + std::to_string(k),
                                      .address = "192.168.7." + std::to_string(k + 1),
                                      .mac = k == 2 ? "02:62:72:64:00:03" : ""});
  const auto nodes = plan_nodes(config, "run", 2);
  EXPECT_EQ(nodes[2].mac, "02:62:72:64:00:03");
  for (const unsigned k : {0u, 1u}) {
    EXPECT_EQ(nodes[k].peers[0].mac, "");
    EXPECT_EQ(nodes[k].peers[1].mac, "02:62:72:64:00:03");
  }
}

TEST(Plan, RunsOfOneMachineHavePortsOfTheirOwn) {
  // More than half of all blocks: by their names alone, runs would have the same ones.
  std::vector<std::pair<PortClaims, unsigned>> runs;
  std::set<unsigned> ports;
  unsigned wanted = 0;
  for (unsigned i = 0; i < 300; ++i) {
    const unsigned blocks = i % 10 == 0 ? 4 : 1;
    PortClaims& claims = runs.emplace_back(PortClaims(), blocks).first;
    const unsigned first = first_udp_port(claims.claim_run(blocks));
    EXPECT_GE(first, kFirstUdpPort);
    for (unsigned b = 0; b < blocks; ++b) ports.insert(first + b * kMaxProxies);
    wanted += blocks;
  }
  EXPECT_EQ(wanted, 390u);
  EXPECT_EQ(ports.size(), wanted);
}

TEST(Plan, EveryClusterHasFaultsOfItsOwnFromOneSeed) {
  settings::RunConfig config = clusters(3);
  config.faults.loss = 0.5;
  config.faults.seed = 7;
  const auto nodes = plan_nodes(config, "run", 2), again = plan_nodes(config, "another", 2);
  std::set<std::uint64_t> seeds;
  for (const auto& node : nodes) {
    seeds.insert(node.faults.seed);
    EXPECT_EQ(node.faults.loss, 0.5);
  }
  EXPECT_EQ(seeds.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(nodes[k].faults.seed, again[k].faults.seed);
  config.faults.seed = 8;
  EXPECT_NE(plan_nodes(config, "run", 2)[0].faults.seed, nodes[0].faults.seed);
}

TEST(Plan, SpinsOnlyWhereThereAreCoresForIt) {
  settings::RunConfig config = clusters(2);
  EXPECT_EQ(plan_nodes(config, "run", 2)[0].idle.spins, 0u);
  EXPECT_EQ(plan_nodes(config, "run", 64)[0].idle.spins, settings::IdleConfig{}.spins);
}

TEST(Plan, WiresConnectAllPairsOfClusters) {
  const Result<proxy::ShmWireOptions> small = plan_wire(clusters(2), 1);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->max_frame_bytes, 9014u);
  EXPECT_EQ(small->queues, 1u);
  EXPECT_EQ(small->frames_per_ring, proxy::ShmWireOptions{}.frames_per_ring);
  const Result<proxy::ShmWireOptions> many = plan_wire(clusters(32), 32 * 31 / 2);
  ASSERT_TRUE(many.ok()) << many.error().text;
  EXPECT_LT(many->frames_per_ring, small->frames_per_ring);
  EXPECT_TRUE(many->validate().ok());
  settings::RunConfig huge = clusters(64);
  huge.proxies = 32;
  const Result<proxy::ShmWireOptions> too_many = plan_wire(huge, 64 * 63 / 2);
  ASSERT_FALSE(too_many.ok());
  EXPECT_THAT(too_many.error().text, HasSubstr("take fewer clusters or proxies"));
}

// The runtime can read the environment that the command writes.
TEST(Plan, TheRuntimeUnderstandsItsEnvironment) {
  settings::RunConfig config = clusters(4);
  config.compute = 3;
  config.heap_mib = 77;
  config.window_kib = 512;
  config.dispatch = convergence::Dispatch::kFixed;
  const Environment environment = plan_environment(config, 2, "@abc", 1);
  const Result<dsm::Environment> read = dsm::Environment::read([&](const char* name) -> const char* {
    for (const auto& [key, value] : environment) {
      if (key == name) return value.c_str();
    }
    return nullptr;
  });
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->service, "@abc");
  EXPECT_EQ(read->cluster, 2);
  EXPECT_EQ(read->clusters, 4);
  EXPECT_EQ(read->compute, 3);
  EXPECT_EQ(read->heap_mib, 77u);
  EXPECT_EQ(read->window_kib, 512u);
  EXPECT_EQ(read->dispatch, convergence::Dispatch::kFixed);
  EXPECT_EQ(read->report_fd, 1);
}

TEST(Plan, ProgramsAreToldTheLengthOfAPage) {
  settings::RunConfig config = clusters(2);
  const auto told = [&] {
    for (const auto& [key, value] : plan_environment(config, 0, "@abc", 1))
      if (key == "BRAID_PAGE_BYTES") return value;
    return std::string();
  };
  EXPECT_EQ(told(), "4096");
  config.engine.page_bytes = 16384;
  EXPECT_EQ(told(), "16384");
}

TEST(Plan, ProgramsAreToldTheWindow) {
  settings::RunConfig config = clusters(2);
  const auto told = [&] {
    for (const auto& [key, value] : plan_environment(config, 0, "@abc", 1))
      if (key == "BRAID_WINDOW_KIB") return value;
    return std::string();
  };
  EXPECT_EQ(told(), "512");
  config.window_kib = 64;
  EXPECT_EQ(told(), "64");
}

TEST(Plan, RuntimeAcceptsEveryWindowThatAFileAllows) {
  for (std::uint32_t kib = 32; kib <= 16384; kib *= 2) {
    settings::RunConfig config;
    config.window_kib = kib;
    const Environment environment = plan_environment(config, 0, "@abc", 1);
    const Result<dsm::Environment> read = dsm::Environment::read([&](const char* name) -> const char* {
      for (const auto& [key, value] : environment) {
        if (key == name) return value.c_str();
      }
      return nullptr;
    });
    EXPECT_TRUE(read.ok()) << read.error().text;
  }
}

TEST(Plan, ReplacesOurVariablesAndKeepsTheRest) {
  const char* const inherited[] = {"PATH=/bin", "BRAID_CLUSTER=9", "BRAID_BRAIDD=/x", "BRAIDED=yes", nullptr};
  EXPECT_THAT(merge_environment(inherited, {{"BRAID_CLUSTER", "1"}}),
              ElementsAre("PATH=/bin", "BRAIDED=yes", "BRAID_CLUSTER=1"));
}

// A program finds the first of two variables of one name, and a shell the last.
TEST(Plan, AnAddedVariableReplacesTheOneThatIsThere) {
  const char* const inherited[] = {"THREADS=2", "THREADS_MOST=9", nullptr};
  EXPECT_THAT(merge_environment(inherited, {{"THREADS", "3"}, {"THREADS", "4"}}),
              ElementsAre("THREADS_MOST=9", "THREADS=4"));
}

}  // namespace
}  // namespace braid::cli
