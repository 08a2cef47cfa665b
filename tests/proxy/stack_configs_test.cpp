#include "proxy/daemon/stack_configs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace braid::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Cluster 0 of 2, with two proxies; the other has four, and two NIs.
NodeConfig config() {
  NodeConfig c;
  c.cluster = 0;
  c.clusters = 2;
  c.proxies = 2;
  c.address = "10.0.0.1";
  c.mac = "02:00:00:00:00:01";
  c.links.resize(2);
  c.links[1].address = "10.1.0.1";
  c.links[1].prefix_bits = 16;
  c.links[1].gateway = "10.1.0.254";
  PeerConfig peer;
  peer.cluster = 1;
  peer.proxies = 4;
  peer.address = "10.0.0.2";
  peer.udp_port = 7800;
  peer.mac = "02:00:00:00:00:02";
  peer.more_nis.push_back({"10.1.0.2", "", 1});
  c.peers.push_back(peer);
  return c;
}

std::vector<unsigned> remotes_of(const stack::StackConfig& s) {
  std::vector<unsigned> all;
  for (const stack::RemoteStack& r : s.remotes) all.push_back(r.id.proxy.value());
  return all;
}

TEST(StackConfigs, ProxyHasSubConnectionsWithThoseThatAreAligned) {
  EXPECT_THAT(remotes_of(stack_config(config(), 0, 1)), ElementsAre(0, 2));
  EXPECT_THAT(remotes_of(stack_config(config(), 1, 1)), ElementsAre(1, 3));
}

TEST(StackConfigs, WithAllPairsTheAlignedArePreferred) {
  NodeConfig c = config();
  c.transport.all_pairs = true;
  const stack::StackConfig s = stack_config(c, 1, 1);
  ASSERT_THAT(remotes_of(s), ElementsAre(0, 1, 2, 3));
  for (const stack::RemoteStack& r : s.remotes) EXPECT_EQ(r.preferred, r.id.proxy.value() % 2 == 1);
  c.transport.peer = PeerChoice::kRoundRobin;
  for (const stack::RemoteStack& r : stack_config(c, 1, 1).remotes) EXPECT_TRUE(r.preferred);
}

TEST(StackConfigs, RemoteIsReachedAtTheNiOfItsProxy) {
  const stack::StackConfig s = stack_config(config(), 1, 100);
  ASSERT_EQ(s.remotes.size(), 2u);
  EXPECT_EQ(s.remotes[1].address.to_string(), "10.1.0.2");
  EXPECT_EQ(s.remotes[1].udp_port, 7803);
  EXPECT_EQ(s.remotes[1].link, LinkId(1));
  EXPECT_FALSE(s.remotes[1].mac) << "it is asked by ARP";
  EXPECT_EQ(stack_config(config(), 0, 100).remotes[0].mac->to_string(), "02:00:00:00:00:02");
  EXPECT_EQ(s.seed, 101u) << "each proxy has epochs of its own";
}

std::shared_ptr<const stack::Secret> some_secret() {
  return std::make_shared<const stack::Secret>(stack::KeyBytes{std::byte{1}});
}

TEST(StackConfigs, RemotesOnLinksThatLeaveTheHostAreSealed) {
  using settings::SecurityMode;
  NodeConfig c = config();
  c.secret = some_secret();
  c.links[1].kind = LinkConfig::Kind::kUdp;
  struct Case {
    SecurityMode mode;
    bool shm, udp;
  };
  for (const Case& k : {Case{SecurityMode::kAuto, false, true}, Case{SecurityMode::kRequired, true, true},
                        Case{SecurityMode::kOff, false, false}}) {
    c.security.mode = k.mode;
    const stack::StackConfig s = stack_config(c, 1, 1);
    EXPECT_EQ(s.sub_connection.security.secret, k.udp ? c.secret : nullptr);
    ASSERT_EQ(s.remotes.size(), 2u);
    EXPECT_EQ(s.remotes[1].link, LinkId(1));
    EXPECT_EQ(s.remotes[1].is_sealed, k.udp);
    EXPECT_EQ(stack_config(c, 0, 1).remotes[0].is_sealed, k.shm) << "on link 0";
  }
}

TEST(StackConfigs, PeersMoveWhereAKernelSendsAndReceives) {  // SE-8
  NodeConfig c = config();
  c.links[1].kind = LinkConfig::Kind::kUdp;
  const stack::StackConfig s = stack_config(c, 1, 1);
  EXPECT_FALSE(s.interfaces[0].peers_move);
  EXPECT_TRUE(s.interfaces[1].peers_move);
}

TEST(StackConfigs, RemoteThatIsNotSealedHasNoSecret) {
  NodeConfig c = config();
  c.secret = some_secret();
  c.security.mode = settings::SecurityMode::kRequired;
  stack::StackConfig s = stack_config(c, 0, 1);
  EXPECT_EQ(stack::sub_connection_config(s, s.remotes[0]).security.secret, c.secret);
  s.remotes[0].is_sealed = false;
  EXPECT_EQ(stack::sub_connection_config(s, s.remotes[0]).security.secret, nullptr);
}

TEST(StackConfigs, LinkMayHaveAnAddressOfItsOwn) {
  const stack::StackConfig s = stack_config(config(), 0, 1);
  ASSERT_EQ(s.interfaces.size(), 2u);
  EXPECT_EQ(s.interfaces[0].address.to_string(), "10.0.0.1");
  EXPECT_FALSE(s.interfaces[0].gateway);
  EXPECT_EQ(s.interfaces[1].address.to_string(), "10.1.0.1");
  EXPECT_EQ(s.interfaces[1].mac.to_string(), "02:00:00:00:00:01");
  EXPECT_EQ(s.interfaces[1].prefix_bits, 16u);
  EXPECT_EQ(s.interfaces[1].gateway->to_string(), "10.1.0.254");
}

TEST(StackConfigs, NodeAloneHasOneInterfaceAndNoRemotes) {
  NodeConfig c = config();
  c.links.clear();
  c.peers.clear();
  const stack::StackConfig s = stack_config(c, 0, 1);
  EXPECT_EQ(s.interfaces.size(), 1u);
  EXPECT_TRUE(s.remotes.empty());
}

TEST(StackConfigs, SlotsForOtherMachinesAreAbsentRemotes) {
  NodeConfig c = config();
  EXPECT_EQ(machine_slots(c), 0);
  c.machines.accept = true;
  c.machines.slots = 3;
  c.machines.max_proxies = 2;
  EXPECT_EQ(machine_slots(c), 3);
  const stack::StackConfig s = stack_config(c, 0, 1);
  ASSERT_EQ(s.remotes.size(), 2u + 6u);
  std::set<unsigned> clusters;
  for (std::size_t i = 2; i < s.remotes.size(); ++i) {
    EXPECT_TRUE(s.remotes[i].absent);
    clusters.insert(s.remotes[i].id.cluster.value());
  }
  EXPECT_THAT(clusters, UnorderedElementsAre(2, 3, 4));
}

TEST(StackConfigs, HashCoversWhatBothEndsMustShare) {
  const NodeConfig c = config();
  const std::uint64_t hash = shared_hash(c, 2);
  EXPECT_NE(shared_hash(c, 3), hash);
  for (const auto& change : std::vector<void (*)(TransportConfig&)>{
           [](TransportConfig& t) { t.mtu_bytes = 9000; }, [](TransportConfig& t) { t.window_packets = 16; },
           [](TransportConfig& t) { t.all_pairs = true; },
           [](TransportConfig& t) { t.fragmentation = stack::Fragmentation::kIp; }}) {
    NodeConfig other = c;
    change(other.transport);
    EXPECT_NE(shared_hash(other, 2), hash);
  }
  NodeConfig local = c;
  local.transport.path_death_ms = 77;
  EXPECT_EQ(shared_hash(local, 2), hash) << "each end decides that for itself";
}

TEST(StackConfigs, PathsToAMachineUseTheExchangedClusterNumbers) {
  Introduction peer;
  peer.cluster = ClusterId(5);
  peer.slot = ClusterId(9);
  peer.proxies = 2;
  peer.udp_port = 7900;
  peer.addresses = {*stack::Ipv4Address::parse("10.1.0.9")};
  const NodeConfig c = config();
  const std::vector<stack::Interface> links = stack_config(c, 0, 1).interfaces;
  const std::vector<RemotePath> paths = paths_to_machine(c, ClusterId(2), peer, links, 77);
  ASSERT_EQ(paths.size(), 2u);
  const RemotePath& second = paths[1];
  EXPECT_EQ(second.path, (convergence::PathId{ProxyId(1), ClusterId(2), ProxyId(1)}));
  EXPECT_EQ(second.stack.address.to_string(), "10.1.0.9");
  EXPECT_EQ(second.stack.udp_port, 7901);
  EXPECT_EQ(second.stack.link, LinkId(1)) << "the longest prefix";
  EXPECT_EQ(second.stack.incarnation, 77u);
  ASSERT_TRUE(second.stack.names);
  EXPECT_EQ(second.stack.names->us.cluster, ClusterId(9));
  EXPECT_EQ(second.stack.names->it.cluster, ClusterId(5));
  EXPECT_EQ(second.stack.names->shared_hash, shared_hash(c, 0));
}

TEST(StackConfigs, NodeIntroducesItselfWithEachAddressOnce) {
  NodeConfig c = config();
  c.links.push_back(c.links[0]);
  const Machines::Config m = machines_config(c, stack_config(c, 0, 1).interfaces, 1);
  ASSERT_EQ(m.self.addresses.size(), 2u);
  EXPECT_EQ(m.self.addresses[1].to_string(), "10.1.0.1");
  EXPECT_EQ(m.first_slot, ClusterId(2));
  EXPECT_EQ(m.self.proxies, 2);
}

}  // namespace
}  // namespace braid::proxy
