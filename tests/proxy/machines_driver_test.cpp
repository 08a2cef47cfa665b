#include "proxy/daemon/machines_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proxy/daemon/stack_configs.h"

namespace braid::proxy {
namespace {

using convergence::Ports;
using ::testing::HasSubstr;

constexpr std::uint16_t kIntroductionPort = 7699;
constexpr stack::Ipv4Address kOwn(10, 0, 0, 1), kTheirs(10, 0, 0, 2);

// A node alone with one proxy: cluster 0 of its machine, with cluster numbers 1 and 2 as slots.
class MachinesDriverTest : public ::testing::Test {
 protected:
  static NodeConfig node_config() {
    NodeConfig c;
    c.proxies = 1;
    c.address = "10.0.0.1";
    c.mac = "02:00:00:00:00:01";
    c.machines.connect = c.machines.accept = true;
    c.machines.udp_port = kIntroductionPort;
    c.machines.slots = 2;
    c.machines.max_proxies = 2;
    return c;
  }
  // The introduction of another node with the same settings.
  Introduction introduction(Introduction::Kind kind) const {
    Introduction i = machines_config(config_, stacks_[0].interfaces, 1).self;
    i.kind = kind;
    i.incarnation = 99;
    i.slot = ClusterId(1);
    i.addresses = {kTheirs};
    return i;
  }
  void receive(const Introduction& i) {
    PlainDatagram d;
    d.port = kIntroductionPort;
    d.peer = {kTheirs, kIntroductionPort};
    const IntroductionBytes bytes = write_introduction(i);
    d.bytes = kIntroductionBytes;
    std::copy(bytes.begin(), bytes.end(), d.data.begin());
    driver_.on_datagram(now_, d);
  }
  std::optional<Introduction> sent() {
    const std::optional<PlainDatagram> d = driver_.poll_datagram();
    if (!d) return std::nullopt;
    EXPECT_EQ(d->port, kIntroductionPort);
    EXPECT_EQ(d->peer.address, kTheirs);
    return parse_introduction(ByteView(d->data).first(d->bytes));
  }
  std::vector<AddressedCommand> commands() {
    std::vector<AddressedCommand> all;
    while (const std::optional<AddressedCommand> told = peers_.poll_command()) all.push_back(*told);
    return all;
  }
  template <class Command>
  std::size_t count(const std::vector<AddressedCommand>& told) const {
    return static_cast<std::size_t>(std::count_if(told.begin(), told.end(), [](const AddressedCommand& t) {
      return std::holds_alternative<Command>(t.command);
    }));
  }
  void request(ClientId client) {
    Machines::Request r;
    r.client = client;
    r.serial = 4;
    r.port = PortId(80);
    r.window_bytes = 4096;
    r.deadline = now_ + 1_s;
    r.addresses = {kTheirs};
    r.introduction_port = kIntroductionPort;
    driver_.connect(now_, r);
  }
  // A client has requested a connection, and the cluster has answered.
  void introduce(ClientId client) {
    request(client);
    const std::optional<Introduction> call = sent();
    ASSERT_TRUE(call);
    Introduction answer = introduction(Introduction::Kind::kAnswer);
    answer.nonce = call->nonce;
    receive(answer);
    EXPECT_GT(driver_.run(now_), 0);
  }
  convergence::PathId path() const { return {ProxyId(0), ClusterId(slot_), ProxyId(0)}; }
  void path_up() {
    peers_.on_event(PathUp{path(), {peers_.own_incarnation(ClusterId(slot_)), 7}});
    driver_.observe(now_);
    driver_.run(now_);
  }
  ClientId attached() {
    const ClientId id = clients_.add();
    EXPECT_TRUE(clients_.attach(*clients_.find(id), {1, 64 << 10, 16 << 10}, 1).ok());
    return id;
  }

  Instant now_ = Instant() + 1_s;
  NodeConfig config_ = node_config();
  std::uint16_t slot_ = 1;
  std::vector<stack::StackConfig> stacks_{stack_config(config_, 0, 5)};
  ProxyMonitor monitor_{{.proxies = 1}, now_};
  Peers peers_{stacks_, 10_s, 5, monitor_};
  Clients clients_{{.channel = {}, .memory_bytes = 4 << 20}, make_plain_region};
  Ports ports_{ClusterId(0), 3, clients_};
  MachinesDriver driver_{config_, stacks_[0].interfaces, 5, peers_, ports_, clients_};
};

TEST_F(MachinesDriverTest, SlotsFollowTheOwnMachinesClusters) {
  EXPECT_FALSE(driver_.is_slot(ClusterId(0)));
  EXPECT_TRUE(driver_.is_slot(ClusterId(1)));
  EXPECT_TRUE(driver_.is_slot(ClusterId(2)));
  EXPECT_FALSE(driver_.is_slot(ClusterId(3)));
}

TEST_F(MachinesDriverTest, CallIsAnsweredAndPathsAreMade) {  // CN-13
  Introduction call = introduction(Introduction::Kind::kCall);
  call.nonce = 3;
  receive(call);
  driver_.run(now_);
  const std::optional<Introduction> answer = sent();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Introduction::Kind::kAnswer);
  EXPECT_EQ(answer->nonce, 3u);
  EXPECT_EQ(answer->slot, ClusterId(1));
  EXPECT_EQ(count<ConnectPath>(commands()), 1u);
  EXPECT_THAT(driver_.poll_event().value_or(""), HasSubstr("10.0.0.2 is known as cluster 1"));
  EXPECT_FALSE(driver_.poll_event());
}

TEST_F(MachinesDriverTest, DatagramForAnotherPortIsDropped) {
  PlainDatagram d;
  d.port = kIntroductionPort + 1;
  d.peer = {kTheirs, kIntroductionPort};
  const IntroductionBytes bytes = write_introduction(introduction(Introduction::Kind::kCall));
  d.bytes = kIntroductionBytes;
  std::copy(bytes.begin(), bytes.end(), d.data.begin());
  driver_.on_datagram(now_, d);
  EXPECT_EQ(driver_.run(now_), 0);
  EXPECT_FALSE(sent());
}

TEST_F(MachinesDriverTest, ConnectionIsRequestedWhenThePathsAreUp) {  // CN-12
  const ClientId client = attached();
  introduce(client);
  EXPECT_EQ(count<ConnectPath>(commands()), 1u);
  driver_.observe(now_);
  driver_.run(now_);
  EXPECT_EQ(ports_.held_by(client), 0u) << "no path is up";
  path_up();
  EXPECT_EQ(ports_.held_by(client), 1u);
  EXPECT_EQ(ports_.held_with(ClusterId(1)), 1u);
}

TEST_F(MachinesDriverTest, RefusalOfAHostOnTheWayIsQuotedToTheClient) {  // CN-12
  const ClientId client = attached();
  request(client);
  PlainDatagram d;
  d.port = kIntroductionPort;
  d.peer = {kTheirs, kIntroductionPort};
  d.unreachable = stack::Unreachable{};
  driver_.on_datagram(now_, d);
  now_ = now_ + 2_s;
  driver_.run(now_);
  const std::optional<ClientMessage> reply = clients_.poll_message(client);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->message.kind, control::Kind::kRefused);
  EXPECT_THAT(reply->message.refused.text, HasSubstr("no answer from 10.0.0.2"));
  EXPECT_THAT(reply->message.refused.text, HasSubstr(stack::to_string(stack::Unreachable{})));
}

TEST_F(MachinesDriverTest,
       UnusedPathsAreDrainedAndTheSlotIsFreeWhenProxiesAndClientsHaveNothingOfIt) {  // CN-15
  const ClientId client = attached();
  introduce(client);
  path_up();
  ASSERT_EQ(ports_.held_with(ClusterId(1)), 1u);
  (void)commands();
  driver_.lost(ClusterId(1));
  driver_.run(now_);
  EXPECT_EQ(count<DrainCluster>(commands()), 1u);
  peers_.cluster_drained(ClusterId(1), 0);
  driver_.run(now_);
  EXPECT_EQ(peers_.count_paths(ClusterId(1)).all, 1u) << "a client holds an end of a connection with it";
  ports_.peer_lost(ClusterId(1));
  while (ports_.poll_event()) {
  }
  ASSERT_EQ(ports_.held_with(ClusterId(1)), 0u);
  EXPECT_EQ(driver_.run(now_), 1);
  EXPECT_EQ(peers_.count_paths(ClusterId(1)).all, 0u);
  EXPECT_THAT(driver_.poll_event().value_or(""), HasSubstr("is known as cluster 1"));
  EXPECT_THAT(driver_.poll_event().value_or(""), HasSubstr("is left"));
}

TEST_F(MachinesDriverTest, RequestOfAGoneClientIsNotAnswered) {
  const ClientId client = attached();
  request(client);
  driver_.client_gone(client);
  now_ = now_ + 2_s;
  EXPECT_EQ(driver_.run(now_), 0);
  EXPECT_FALSE(clients_.poll_message());
}

}  // namespace
}  // namespace braid::proxy
