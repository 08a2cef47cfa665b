#include "proxy/daemon/peers.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace braid::proxy {
namespace {

constexpr ClusterId kPeer{1}, kSlot{2};
constexpr std::uint64_t kTheirs = 0x77;

// A node with two proxies, each with a path to the same proxy of cluster 1, and a slot for a cluster of another
// machine.
class PeersTest : public ::testing::Test {
 protected:
  static stack::RemoteStack remote(ClusterId cluster, unsigned proxy) {
    stack::RemoteStack r;
    r.id = {cluster, id(proxy)};
    r.address = *stack::Ipv4Address::parse("10.0.0.2");
    r.udp_port = static_cast<std::uint16_t>(7700 + proxy);
    return r;
  }
  static std::vector<stack::StackConfig> two_stacks() {
    std::vector<stack::StackConfig> stacks(2);
    for (unsigned p = 0; p < 2; ++p) {
      stacks[p].local = {ClusterId(0), id(p)};
      stacks[p].remotes.push_back(remote(kPeer, p));
      stack::RemoteStack slot;
      slot.id = {kSlot, id(p)};
      slot.absent = true;
      stacks[p].remotes.push_back(slot);
    }
    return stacks;
  }
  static ProxyId id(unsigned proxy) { return ProxyId(static_cast<std::uint8_t>(proxy)); }
  static convergence::PathId path(unsigned proxy, ClusterId cluster = kPeer) {
    return {id(proxy), cluster, id(proxy)};
  }
  static convergence::ControlMessage message(convergence::ControlMessage::Kind kind, std::uint32_t serial) {
    convergence::ControlMessage m;
    m.kind = kind;
    m.serial = serial;
    return m;
  }
  static convergence::ControlMessage close_message(std::uint32_t serial) {
    return message(convergence::ControlMessage::Kind::kClose, serial);
  }
  convergence::Association with(std::uint64_t theirs, ClusterId cluster = kPeer) const {
    return {peers_.own_incarnation(cluster), theirs};
  }
  void all_up() {
    for (unsigned p = 0; p < 2; ++p) peers_.on_event(PathUp{path(p), with(kTheirs)});
    (void)commands();
  }
  std::vector<AddressedCommand> commands() {
    std::vector<AddressedCommand> all;
    while (const std::optional<AddressedCommand> told = peers_.poll_command()) all.push_back(*told);
    return all;
  }
  template <class Command>
  static std::vector<Command> all_of(const std::vector<AddressedCommand>& told) {
    std::vector<Command> all;
    for (const AddressedCommand& t : told)
      if (const Command* const command = std::get_if<Command>(&t.command)) all.push_back(*command);
    return all;
  }

  ProxyMonitor monitor_{{.proxies = 2}, Instant()};
  std::vector<stack::StackConfig> stacks_ = two_stacks();
  Peers peers_{stacks_, 10_s, 5, monitor_};
};

TEST_F(PeersTest, StacksGetTheIncarnationThatTheNodeHasTowardsAPeer) {
  EXPECT_NE(stacks_[0].remotes[0].incarnation, 0u);
  EXPECT_EQ(stacks_[0].remotes[0].incarnation, peers_.own_incarnation(kPeer));
  EXPECT_EQ(stacks_[1].remotes[0].incarnation, peers_.own_incarnation(kPeer));
}

TEST_F(PeersTest, PeerThatComesUpIsToldHowManyProxiesAreActive) {  // FO-8
  peers_.set_active(1);
  EXPECT_TRUE(commands().empty()) << "no peer is known";
  peers_.on_event(PathUp{path(1), with(kTheirs)});
  const std::vector<AddressedCommand> told = commands();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].proxy, 1u) << "over the path that is up";
  const SendControl& control = std::get<SendControl>(told[0].command);
  EXPECT_EQ(control.to, kPeer);
  EXPECT_EQ(control.message.kind, convergence::ControlMessage::Kind::kProxies);
  EXPECT_EQ(control.message.proxy, 1);
  peers_.on_event(PathUp{path(0), with(kTheirs)});
  EXPECT_TRUE(commands().empty()) << "once";
  peers_.set_active(2);
  ASSERT_EQ(all_of<SendControl>(commands()).size(), 1u) << "and when it changes";
}

TEST_F(PeersTest, MessageOfPortsIsReceivedOnce) {  // CN-11
  all_up();
  const ControlReceived event{kPeer, with(kTheirs), close_message(9)};
  EXPECT_TRUE(peers_.received(event));
  EXPECT_FALSE(peers_.received(event));
}

TEST_F(PeersTest, NumberOfAPeersActiveProxiesIsToldToAllProxies) {  // FO-8
  all_up();
  convergence::ControlMessage m = message(convergence::ControlMessage::Kind::kProxies, 1);
  m.proxy = 3;
  EXPECT_FALSE(peers_.received({kPeer, with(kTheirs), m})) << "it is not for ports";
  const std::vector<AddressedCommand> told = commands();
  ASSERT_EQ(told.size(), 2u);
  for (unsigned p = 0; p < 2; ++p) {
    EXPECT_EQ(told[p].proxy, p);
    EXPECT_EQ(std::get<PreferProxies>(told[p].command).active, 3u);
  }
}

TEST_F(PeersTest, LostPeerIsReportedOnceAndSerialsStartOver) {  // CN-11
  all_up();
  EXPECT_TRUE(peers_.received({kPeer, with(kTheirs), close_message(1)}));
  peers_.on_event(PeerLost{kPeer, with(kTheirs), true, true});
  peers_.on_event(PeerLost{kPeer, with(kTheirs), true, true});
  EXPECT_GT(peers_.run(), 0);
  const std::optional<Peers::Lost> lost = peers_.poll_lost();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->cluster, kPeer);
  EXPECT_TRUE(lost->ended);
  EXPECT_FALSE(peers_.poll_lost());
  EXPECT_FALSE(all_of<ForgetPeer>(commands()).empty()) << "proxies forget it";
  peers_.on_event(PathUp{path(0), with(kTheirs + 1)});
  EXPECT_TRUE(peers_.received({kPeer, with(kTheirs + 1), close_message(1)}));
}

TEST_F(PeersTest, MessageOfANewIncarnationReportsTheLossFirst) {  // CN-11
  all_up();
  EXPECT_TRUE(peers_.received({kPeer, with(kTheirs + 1), close_message(1)}));
  ASSERT_TRUE(peers_.poll_lost());
  EXPECT_FALSE(peers_.received({kPeer, with(kTheirs), close_message(2)})) << "it was given up";
}

TEST_F(PeersTest, MessageNamesTheIncarnationItIsMeantFor) {  // CN-8
  all_up();
  peers_.send(kPeer, close_message(0));
  const std::vector<SendControl> first = all_of<SendControl>(commands());
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].message.epoch, kTheirs);
  peers_.on_event(PathUp{path(0), with(kTheirs + 1)});
  (void)commands();
  peers_.send(kPeer, close_message(0));
  const std::vector<SendControl> sent = all_of<SendControl>(commands());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.epoch, kTheirs + 1) << "the successor";
}

TEST_F(PeersTest, MessageForAPeerThatIsNotKnownNamesNoIncarnation) {  // CN-8
  peers_.send(kPeer, message(convergence::ControlMessage::Kind::kConnect, 0));
  const std::vector<SendControl> sent = all_of<SendControl>(commands());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.epoch, 0u);
}

TEST_F(PeersTest, MessageForAnotherIncarnationIsIgnored) {  // CN-8
  all_up();
  convergence::ControlMessage m = close_message(1);
  m.epoch = peers_.own_incarnation(kPeer) + 1;
  EXPECT_FALSE(peers_.received({kPeer, with(kTheirs), m})) << "it waited for a predecessor";
  m.serial = 2;
  m.epoch = peers_.own_incarnation(kPeer);
  EXPECT_TRUE(peers_.received({kPeer, with(kTheirs), m}));
  m.serial = 3;
  m.epoch = 0;
  EXPECT_TRUE(peers_.received({kPeer, with(kTheirs), m})) << "the sender knew of none";
}

TEST_F(PeersTest, AnotherProxySendsTheMessagesOfAFencedOne) {  // CN-11, FO-5
  all_up();
  peers_.send(kPeer, close_message(0));
  const std::vector<AddressedCommand> first = commands();
  ASSERT_EQ(first.size(), 1u);
  const unsigned sender = first[0].proxy;
  monitor_.fence(sender);
  peers_.proxy_fenced(id(sender));
  const std::vector<AddressedCommand> again = commands();
  bool found = false;
  for (const AddressedCommand& told : again) {
    const SendControl* const control = std::get_if<SendControl>(&told.command);
    if (control == nullptr || control->message.kind != convergence::ControlMessage::Kind::kClose) continue;
    found = true;
    EXPECT_EQ(told.proxy, 1 - sender);
    EXPECT_EQ(control->message.serial, std::get<SendControl>(first[0].command).message.serial);
  }
  EXPECT_TRUE(found);
}

TEST_F(PeersTest, ClusterOfAnotherMachineIsConnectedAndForgotten) {
  stack::RemoteStack r = remote(kSlot, 0);
  r.names.emplace();
  peers_.connect({{path(0, kSlot), r}});
  std::vector<AddressedCommand> told = commands();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::get<ConnectPath>(told[0].command).opens);
  EXPECT_EQ(peers_.count_paths(kSlot).all, 1u);
  EXPECT_EQ(peers_.count_paths(kSlot).up, 0u);
  EXPECT_EQ(peers_.problems(kSlot), "10.0.0.2:7700 is silent");
  peers_.on_event(PathUp{path(0, kSlot), with(3, kSlot)});
  EXPECT_EQ(peers_.count_paths(kSlot).up, 1u);
  EXPECT_EQ(peers_.problems(kSlot), "");
  (void)commands();

  peers_.drain(kSlot);
  EXPECT_EQ(all_of<DrainCluster>(commands()).size(), 2u);
  peers_.cluster_drained(kSlot, 0);
  EXPECT_TRUE(peers_.drained().empty());
  peers_.cluster_drained(kSlot, 1);
  ASSERT_EQ(peers_.drained().size(), 1u);
  peers_.forget(kSlot);
  EXPECT_TRUE(peers_.drained().empty());
  EXPECT_EQ(peers_.count_paths(kSlot).all, 0u);
  ASSERT_TRUE(peers_.poll_lost()) << "whatever it had is lost";
}

TEST_F(PeersTest, ReturnedProxyIsConnectedToOtherMachinesAgain) {  // FO-6
  stack::RemoteStack r = remote(kSlot, 0);
  r.names.emplace();
  peers_.connect({{path(0, kSlot), r}});
  (void)commands();
  monitor_.fence(0);
  peers_.proxy_fenced(id(0));
  (void)commands();
  monitor_.resumed(0);
  monitor_.forgotten(0, 1);
  monitor_.take_back(0);
  peers_.proxy_back(id(0));
  const std::vector<ConnectPath> connects = all_of<ConnectPath>(commands());
  ASSERT_EQ(connects.size(), 1u) << "paths of this machine it knows";
  EXPECT_EQ(connects[0].path, path(0, kSlot));
  EXPECT_FALSE(connects[0].opens) << "that comes when its old end is closed";
}

}  // namespace
}  // namespace braid::proxy
