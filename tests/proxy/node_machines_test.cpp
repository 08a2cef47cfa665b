// Clusters of several machines in virtual time: they are introduced at run time, connect, and forget each other;
// and the reasons of refusals.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "proxy/daemon/machines.h"
#include "tests/proxy/virtual_world.h"

namespace braid::proxy::test {
namespace {

constexpr MachinesConfig kOpen{.connect = true, .accept = true};

// By cluster of the world: its addresses on both NIs.
RemoteCluster at(unsigned cluster, unsigned nis = 2) {
  RemoteCluster remote;
  for (unsigned ni = 0; ni < nis; ++ni) remote.addresses.push_back(sim::address_of({cluster, ni}));
  return remote;
}

// A machine of clusters 0 and 1 with two proxies each, and one of cluster 2 with three; two NIs each.
VirtualWorldOptions two_machines(std::vector<MachinesConfig> machines = {kOpen, kOpen, kOpen}) {
  for (MachinesConfig& m : machines) m.slots = 2;
  VirtualWorldOptions o;
  o.proxies = {2, 2, 3};
  o.nis = 2;
  o.machine = {0, 0, 1};
  o.machines = std::move(machines);
  return o;
}

Pair connect_to(VirtualWorld& world, Endpoint& from, unsigned to_cluster, Endpoint& to, PortId port) {
  const Result<void> listening = to.listen(port, {});
  EXPECT_TRUE(listening.ok()) << listening.error().text;
  const Result<Connection*> out = from.connect(at(to_cluster), port, {}, 2_s);
  EXPECT_TRUE(out.ok()) << out.error().text;
  if (!out.ok()) return {};
  for (int i = 0; i < 1000; ++i) world.turn();
  return {out.value(), to.try_accept()};
}

std::string refusal(VirtualWorld& world, Client& from, const RemoteCluster& to, Duration timeout = 200_ms) {
  const Instant asked = world.now;
  const Result<Connection*> out = from.endpoint(0).connect(to, PortId(9), {}, timeout);
  EXPECT_FALSE(out.ok());
  EXPECT_LE(world.now - asked, timeout + 10_ms);
  return out.ok() ? "" : out.error().text;
}

::testing::AssertionResult says(const char*, const char*, const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' does not say '" << part << "'";
}
#define EXPECT_SAYS(text, part) EXPECT_PRED_FORMAT2(says, text, part)

// Both directions at once, whole and in order.
void talk(const Pair& p, Client& a, Client& b, std::uint32_t messages) {
  std::array<std::uint32_t, 2> sent{}, got{};
  for (int turns = 0; turns < 20'000 && (got[0] < messages || got[1] < messages); ++turns) {
    talk_both_ways(p, a.endpoint(0), b.endpoint(0), sent, got);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
  EXPECT_GE(got[0], messages);
  EXPECT_GE(got[1], messages);
}

TEST(OtherMachines, ConnectOverAllProxiesAndAreForgotten) {  // CN-12, CN-14, CN-15
  VirtualWorld world(two_machines());
  const auto a = world.client(0), b = world.client(2), sibling = world.client(1);
  for (int round = 0; round < 3; ++round) {  // more often than there are slots
    SCOPED_TRACE(round);
    const Pair p =
        connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(20u + static_cast<unsigned>(round)));
    ASSERT_NE(p.in, nullptr);
    EXPECT_GE(p.out->peer().value(), 2) << "above this machine's clusters";
    EXPECT_GE(p.in->peer().value(), 1);
    talk(p, *a, *b, 200);
    for (unsigned proxy = 0; proxy < 3; ++proxy)
      EXPECT_GT(world.node(2).counters(proxy).messages_received.get(), 0u) << proxy;
    // Inside its own machine everything is as before.
    if (round == 0) {
      const Pair inside = connect(sibling->endpoint(0), ClusterId(0), a->endpoint(0), PortId(5));
      talk(inside, *sibling, *a, 50);
    }
    EXPECT_SAYS(world.node(0).poll_machine_event().value_or(""), "10.98.0.3, 10.99.0.3");
    a->endpoint(0).close(p.out);
    world.run(5_ms);
    EXPECT_EQ(p.in->state(), ConnectionState::kPeerClosed);
    b->endpoint(0).close(p.in);
    world.wait(600_ms);
    EXPECT_SAYS(world.node(0).poll_machine_event().value_or(""), "is left");
    EXPECT_SAYS(world.node(2).poll_machine_event().value_or(""), "10.98.0.1, 10.99.0.1");
    EXPECT_SAYS(world.node(2).poll_machine_event().value_or(""), "is left");
    EXPECT_EQ(world.node(0).poll_machine_event(), std::nullopt);
  }
  EXPECT_FALSE(world.node(0).poll_lost_peer());
}

// Each calls the other's cluster and its own by numbers of its own; alone in their machines both say the same.
TEST(OtherMachines, SealTheirPacketsWhateverTheyCallEachOther) {  // SE-4
  VirtualWorldOptions alone = two_machines({kOpen, kOpen});
  alone.proxies = {2, 2};
  alone.machine = {0, 1};
  for (VirtualWorldOptions options : {two_machines(), alone}) {
    options.sealed = true;
    const unsigned other = static_cast<unsigned>(options.proxies.size()) - 1;
    VirtualWorld world(options);
    const auto a = world.client(0), b = world.client(other);
    const Pair p = connect_to(world, a->endpoint(0), other, b->endpoint(0), PortId(20));
    ASSERT_NE(p.in, nullptr);
    talk(p, *a, *b, 200);
    for (unsigned proxy = 0; proxy < 2; ++proxy) {
      EXPECT_GT(world.node(other).counters(proxy).messages_received.get(), 0u) << proxy;
      EXPECT_EQ(world.node(other).counters(proxy).forged_packets.get(), 0u);
    }
  }
}

TEST(OtherMachines, OneSlotServesAllConnectionsBothWays) {  // CN-12
  VirtualWorld world(two_machines());
  const auto a = world.client(0), b = world.client(2);
  const Pair there = connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(9));
  const Pair back = connect_to(world, b->endpoint(0), 0, a->endpoint(0), PortId(9));
  const Pair again = connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(10));
  ASSERT_TRUE(there.in != nullptr && back.in != nullptr && again.in != nullptr);
  EXPECT_EQ(there.out->peer(), back.in->peer());
  EXPECT_EQ(there.out->peer(), again.out->peer());
  talk(back, *b, *a, 50);
  // The first may go, and what is left is not disturbed.
  a->endpoint(0).close(there.out);
  b->endpoint(0).close(there.in);
  world.wait(700_ms);
  talk(again, *a, *b, 50);
}

TEST(OtherMachines, ForbiddenCallIsRefusedWithItsReason) {  // CN-12, CN-13
  VirtualWorld world(
      two_machines({kOpen, {.connect = false, .accept = true}, {.connect = true, .accept = false}}));
  const auto a = world.client(0), sibling = world.client(1), b = world.client(2);
  EXPECT_SAYS(refusal(world, *a, at(2)), "10.98.0.3 does not let other machines in: set machines.accept");
  EXPECT_SAYS(refusal(world, *sibling, at(2)), "set machines.connect");
  ASSERT_TRUE(a->endpoint(0).listen(PortId(9), {}).ok());
  EXPECT_TRUE(b->endpoint(0).connect(at(0), PortId(9), {}, 1_s).ok());
}

TEST(OtherMachines, WrongAddressesAreNamed) {  // CN-12, CN-14
  VirtualWorld world(two_machines());
  const auto a = world.client(0), b = world.client(2);
  EXPECT_SAYS(refusal(world, *a, {.addresses = {"10.98.0.77"}}), "no answer from 10.98.0.77, UDP port 7699");
  EXPECT_SAYS(refusal(world, *a, {.addresses = {"10.98.0.3", "10.99.0.77"}}),
              "10.99.0.77 is not an address of the cluster at 10.98.0.3, 10.99.0.3");
  EXPECT_SAYS(refusal(world, *a, {.addresses = {"10.98.0.1"}}), "10.98.0.1 is this node's own address");
  EXPECT_SAYS(refusal(world, *a, {.addresses = {"192.0.2.1"}}), "192.0.2.1 is on no link of this node");
  EXPECT_SAYS(refusal(world, *a, {.addresses = {"somewhere"}}), "'somewhere' is no IPv4 address");
  EXPECT_SAYS(refusal(world, *a, {.addresses = {"224.0.0.1"}}), "224.0.0.1: must be one host's address");
  EXPECT_SAYS(refusal(world, *a, {.addresses = {"10.98.0.3", "10.98.0.3"}}), "named once");
  EXPECT_SAYS(refusal(world, *a, {}), "0 addresses");
  // No listener is there; the slot is taken, and the next request finds it.
  EXPECT_SAYS(refusal(world, *a, at(2)), "nobody listens on that port");
  EXPECT_NE(connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(11)).in, nullptr);
}

TEST(OtherMachines, ClosedPortIsQuoted) {  // CN-14
  VirtualWorld world(two_machines());
  const auto a = world.client(0), b = world.client(2);
  RemoteCluster wrong_port = at(2);
  wrong_port.udp_port = 7600;
  EXPECT_SAYS(refusal(world, *a, wrong_port), "port unreachable");
}

TEST(OtherMachines, DeadNiDoesNotKeepOthersFromConnecting) {  // CN-12
  VirtualWorld world(two_machines());
  const auto a = world.client(0), b = world.client(2);
  world.cut_off({2, 1});
  const Pair p = connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(9));
  ASSERT_NE(p.in, nullptr);
  talk(p, *a, *b, 100);
}

TEST(OtherMachines, SubConnectionsThatDoNotComeUpAreNamed) {  // CN-12
  VirtualWorld world(two_machines());
  const auto a = world.client(0), b = world.client(2);
  // Only introductions get through: when the answer has come the links go dark.
  world.each_turn = [&] {
    if (world.node(0).poll_machine_event())
      for (unsigned p = 0; p < 3; ++p) world.cut_off({2, p});
  };
  const std::string text = refusal(world, *a, at(2));
  EXPECT_SAYS(text, "no sub-connection comes up (10.98.0.3:7700 is silent");
  // And the slot is free again, at both.
  world.each_turn = nullptr;
  world.mend_all();
  world.wait(1200_ms);
  EXPECT_NE(connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(9)).in, nullptr);
}

TEST(OtherMachines, PeerThatDiesIsLostAndFoundAgain) {  // CN-8, CN-15
  VirtualWorld world(two_machines());
  const auto a = world.client(0);
  {
    const auto b = world.client(2);
    const Pair p = connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(9));
    ASSERT_NE(p.in, nullptr);
    for (unsigned proxy = 0; proxy < 3; ++proxy) world.cut_off({2, proxy});
    world.wait(300_ms);  // peer_death is 100 ms here
    EXPECT_EQ(p.out->state(), ConnectionState::kPeerLost);
    EXPECT_EQ(p.in->state(), ConnectionState::kPeerLost);
    // Until its last connection is closed, no other cluster gets its number.
    world.mend_all();
    EXPECT_SAYS(refusal(world, *a, at(2), 50_ms), "former connections");
    a->endpoint(0).close(p.out);
  }
  world.restart(2);
  const auto b = world.client(2);
  const Pair p = connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(9));
  ASSERT_NE(p.in, nullptr);
  talk(p, *a, *b, 100);
}

TEST(OtherMachines, StalledProxyIsReplaced) {  // FO-5, FO-6
  VirtualWorld world(two_machines());
  const auto a = world.client(0), b = world.client(2);
  const Pair p = connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(9));
  ASSERT_NE(p.in, nullptr);
  talk(p, *a, *b, 100);
  world.stalled.insert({0, 1});
  world.run(50_ms);
  EXPECT_EQ(world.node(0).poll_fenced_proxy(), 1u);
  world.stalled.clear();
  world.run(20_ms);
  EXPECT_EQ(p.out->state(), ConnectionState::kOpen);
  const Pair next = connect_to(world, a->endpoint(0), 2, b->endpoint(0), PortId(10));
  ASSERT_NE(next.in, nullptr);
  const std::uint64_t before = world.node(0).counters(1).messages_sent.get();
  talk(next, *a, *b, 100);
  EXPECT_GT(world.node(0).counters(1).messages_sent.get(), before) << "it is used again";
}

TEST(OtherMachines, SlotsAndRequestsAreBounded) {  // CN-12, CN-13
  VirtualWorldOptions o;
  o.proxies = {1, 1, 1};
  o.nis = 1;
  o.machine = {0, 1, 2};
  MachinesConfig small = kOpen;
  small.slots = 1;
  o.machines = {small, small, small};
  VirtualWorld world(o);
  const auto a = world.client(0), b = world.client(1), c = world.client(2);
  ASSERT_TRUE(b->endpoint(0).listen(PortId(9), {}).ok());
  ASSERT_TRUE(c->endpoint(0).listen(PortId(9), {}).ok());
  ASSERT_TRUE(a->endpoint(0).connect(at(1, 1), PortId(9), {}, 1_s).ok());
  EXPECT_SAYS(refusal(world, *a, at(2, 1)), "machines.slots");
  EXPECT_SAYS(refusal(world, *c, at(1, 1)), "knows as many clusters of other machines as it may");

  // One client, and more wishes than may wait.
  Node& node = world.node(2);
  const Node::ClientId raw = node.add_client();
  control::Message m;
  m.kind = control::Kind::kAttach;
  m.attach = {1, 65536, 65536};
  node.on_request(world.now, raw, m);
  m = {};
  m.kind = control::Kind::kConnectMachine;
  m.connect_machine = {{0, 9, 0, 4096, 1, 100, stack::kMessages.value()}, {0x0a620063}, 1, 7699};
  for (std::uint32_t i = 1; i <= 2 * Machines::kMaxRequests; ++i) {
    m.serial = i;
    node.on_request(world.now, raw, m);
  }
  world.run(1_ms);
  unsigned refused = 0;
  while (const auto out = node.poll_outbound(raw)) refused += out->message.kind == control::Kind::kRefused;
  EXPECT_EQ(refused, Machines::kMaxRequests);
  world.wait(150_ms);
  while (const auto out = node.poll_outbound(raw)) refused += out->message.kind == control::Kind::kRefused;
  EXPECT_EQ(refused, 2 * Machines::kMaxRequests) << "each gets one answer";
  node.client_gone(raw);
  world.run(1_ms);
  EXPECT_FALSE(node.has_client(raw));
}

// A node that ends in good order tells its peers, and no message that its clients had sent is lost.
TEST(OrderlyEnd, PeersAreToldAtOnceAndHaveEveryMessage) {  // SC-11
  VirtualWorld world({2, 2}, false);
  const auto a = world.client(0), b = world.client(1);
  const Pair p = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), PortId(9));
  std::uint32_t sent = 0, got = 0;
  while (p.in->try_send(numbered(sent, 1000)) == SendStatus::kSent) ++sent;
  b->endpoint(0).flush();
  world.run(4_us);  // they are taken, and not yet acknowledged
  for (unsigned proxy = 0; proxy < 2; ++proxy) world.node(1).worker(proxy).stop_taking();
  const Instant began = world.now;
  const auto all = [&](auto&& does) {
    return does(world.node(1).worker(0)) && does(world.node(1).worker(1));
  };
  while (!all([](Worker& w) { return w.all_acknowledged(); }) && world.now - began < 50_ms) world.turn();
  for (unsigned proxy = 0; proxy < 2; ++proxy) world.node(1).worker(proxy).close(world.now);
  while (p.out->state() == ConnectionState::kOpen && world.now - began < 50_ms)
    a->endpoint(0).poll([&](Connection&, ByteView m) { got += number_of(m) == got ? 1 : 0; });
  EXPECT_EQ(p.out->state(), ConnectionState::kPeerLost);
  EXPECT_LT(world.now - began, 5_ms) << "peer_death is 100 ms";
  for (int i = 0; i < 100; ++i)
    a->endpoint(0).poll([&](Connection&, ByteView m) { got += number_of(m) == got ? 1 : 0; });
  EXPECT_GT(sent, 100u);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(world.node(0).poll_ended_peer(), ClusterId(1));
  EXPECT_EQ(world.node(0).poll_lost_peer(), std::nullopt);
  world.run(5_ms);
  EXPECT_TRUE(all([](Worker& w) { return w.closed(); }));
}

TEST(OtherMachines, DifferencesAreNamed) {  // CN-13, CN-14
  Introduction::Link link{.mtu_bytes = 1500, .window_packets = 256};
  Machines::Config c;
  c.self.addresses = {stack::Ipv4Address(10, 0, 0, 1)};
  c.self.proxies = 1;
  c.self.udp_port = 7700;
  c.self.link = link;
  c.links = {{.address = c.self.addresses[0], .mac = {}}};
  c.first_slot = ClusterId(1);
  c.slots = 1;
  c.max_proxies = 4;
  c.may_connect = c.may_accept = true;
  Machines a(c);
  c.self.addresses = {stack::Ipv4Address(10, 0, 0, 2)};
  c.self.link.mtu_bytes = 9000;
  c.seed = 2;
  Machines b(c);
  Machines::Request r;
  r.deadline = Instant() + 1_s;
  r.addresses = c.self.addresses;
  r.introduction_port = 7699;
  a.connect(Instant(), r);
  const auto call = a.poll_datagram();
  ASSERT_TRUE(call);
  b.on_datagram(Instant(), {stack::Ipv4Address(10, 0, 0, 1), 7699}, call->bytes);
  const auto answer = b.poll_datagram();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(b.poll_event());
  a.on_datagram(Instant(), {stack::Ipv4Address(10, 0, 0, 9), 7699}, answer->bytes);
  EXPECT_FALSE(a.poll_event()) << "no Call was sent there";
  a.on_datagram(Instant(), {stack::Ipv4Address(10, 0, 0, 2), 7699}, answer->bytes);
  const auto event = a.poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Machines::Event::Kind::kRefused);
  EXPECT_SAYS(event->text, "transport.mtu_bytes is 9000 there and 1500 here");
}

TEST(OtherMachines, IntroductionsAreReadBackAndInvalidBytesRefused) {  // CN-13
  Introduction i;
  i.kind = Introduction::Kind::kAnswer;
  i.nonce = 0x123456789abcdef0;
  i.incarnation = 77;
  i.cluster = ClusterId(3);
  i.slot = ClusterId(1023);
  i.proxies = 32;
  i.udp_port = 65504;
  i.link = {1500, 256, stack::Fragmentation::kIp, true};
  i.addresses = {stack::Ipv4Address(10, 0, 0, 1), stack::Ipv4Address(10, 0, 1, 1)};
  const IntroductionBytes bytes = write_introduction(i);
  const auto read = parse_introduction(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(write_introduction(*read), bytes);
  EXPECT_EQ(read->addresses, i.addresses);
  EXPECT_EQ(read->link, i.link);
  EXPECT_EQ(read->slot, ClusterId(1023));
  EXPECT_FALSE(parse_introduction(ByteView(bytes).first(71)));
  // One field beyond what it may be.
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, unsigned>>{{0, 0},
                                                                               {4, 9},
                                                                               {5, 0},
                                                                               {5, 4},
                                                                               {6, 99},
                                                                               {7, 0},
                                                                               {7, 9},
                                                                               {25, 4},
                                                                               {27, 4},
                                                                               {28, 33},
                                                                               {28, 0},
                                                                               {31, 0},
                                                                               {38, 2},
                                                                               {39, 2},
                                                                               {43, 0xe0}}) {
    IntroductionBytes wrong = bytes;
    wrong[at] = static_cast<std::byte>(value);
    EXPECT_EQ(parse_introduction(wrong).has_value(), at == 31) << at;
  }
  IntroductionBytes twice = bytes;
  std::copy_n(twice.begin() + 40, 4, twice.begin() + 44);
  EXPECT_FALSE(parse_introduction(twice));
}

// Random datagrams come in random order with everything else. Each request gets one answer, and every slot is
// free again in the end.
TEST(OtherMachines, NoDatagramCrashesANode) {  // CN-13, CN-14
  constexpr std::uint64_t kSeed = 20261121;
  SCOPED_TRACE(kSeed);
  Prng prng(kSeed);
  const auto address = [&] {
    return stack::Ipv4Address(10, 0, 0, static_cast<std::uint8_t>(1 + prng.below(6)));
  };
  Machines::Config c;
  c.self.addresses = {stack::Ipv4Address(10, 0, 0, 1)};
  c.self.proxies = 2;
  c.self.udp_port = 7700;
  c.self.link = {.mtu_bytes = 1500, .window_packets = 256};
  c.links = {{.address = c.self.addresses[0], .mac = {}}};
  c.first_slot = ClusterId(1);
  c.slots = 3;
  c.max_proxies = 4;
  c.may_connect = c.may_accept = true;
  Machines machines(c);
  Instant now;
  std::vector<Introduction> calls;
  unsigned asked = 0, answered = 0;
  std::set<std::uint16_t> draining;
  const auto take = [&] {
    while (const auto event = machines.poll_event()) {
      answered +=
          event->kind == Machines::Event::Kind::kConnect || event->kind == Machines::Event::Kind::kRefused;
      if (event->kind == Machines::Event::Kind::kDrain) {
        ASSERT_TRUE(draining.insert(event->slot.value()).second);
      }
      if (event->kind == Machines::Event::Kind::kConnectPaths) {
        ASSERT_FALSE(draining.contains(event->slot.value()));
      }
    }
    while (const auto datagram = machines.poll_datagram())
      if (const auto i = parse_introduction(datagram->bytes); i && calls.size() < 64) calls.push_back(*i);
  };
  unsigned met = 0;
  for (int step = 0; step < 200'000; ++step) {
    now = now + Duration::us(static_cast<std::int64_t>(prng.below(5000)));
    const ClusterId slot(static_cast<std::uint16_t>(1 + prng.below(3)));
    switch (prng.below(8)) {
      case 0: {
        Machines::Request r;
        r.serial = ++asked;
        r.deadline = now + Duration::ms(static_cast<std::int64_t>(prng.below(300)));
        r.addresses = {address()};
        r.introduction_port = 7699;
        machines.connect(now, r);
        break;
      }
      case 1:
      case 2:
      case 3: {  // a datagram that was sent before, with changed fields
        Introduction i = calls.empty() ? c.self : calls[prng.below(calls.size())];
        i.kind = static_cast<Introduction::Kind>(1 + prng.below(3));
        i.reason = static_cast<Introduction::Reason>(prng.below(7));
        i.addresses = {address()};
        if (prng.chance(0.5)) i.incarnation = 1 + prng.below(4);
        if (prng.chance(0.2)) i.proxies = static_cast<std::uint16_t>(1 + prng.below(6));
        if (prng.chance(0.1)) i.link.mtu_bytes = 9000;
        IntroductionBytes bytes = write_introduction(i);
        if (prng.chance(0.1)) bytes[prng.below(bytes.size())] = static_cast<std::byte>(prng.below(256));
        machines.on_datagram(now, {i.addresses[0], 7699}, bytes);
        break;
      }
      case 4:
        machines.on_timer(now);
        break;
      case 5:
        take();
        if (machines.is_connecting(slot)) {
          machines.on_paths(now, slot, static_cast<unsigned>(prng.below(3)), 2, "");
          met += machines.is_connecting(slot) ? 0 : 1;
        }
        break;
      case 6:
        if (prng.chance(0.2)) machines.lost(slot);
        machines.in_use(now, slot, static_cast<std::uint32_t>(prng.below(2)));
        break;
      case 7:
        take();
        if (draining.erase(slot.value()) > 0) machines.gone(slot);
        break;
    }
    ASSERT_FALSE(HasFatalFailure());
  }
  for (int i = 0; i < 3; ++i) {
    now = now + 5_s;
    machines.on_timer(now);
    for (std::uint16_t p = 1; p <= 3; ++p) machines.lost(ClusterId(p));
    take();
    for (const std::uint16_t p : std::exchange(draining, {})) machines.gone(ClusterId(p));
  }
  EXPECT_GT(met, 100u);
  EXPECT_EQ(answered, asked);
  EXPECT_TRUE(machines.occupied().empty());
}

}  // namespace
}  // namespace braid::proxy::test
