#include "proxy/daemon/client_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace braid::proxy {
namespace {

using convergence::Ports;
using ::testing::HasSubstr;

// Cluster 0 of 2, with two proxies, which obey no command until the test says so.
class ClientServiceTest : public ::testing::Test {
 protected:
  static constexpr int kCountersFd = 77;

  static control::Message message(control::Kind kind, std::uint32_t serial = 4) {
    control::Message m;
    m.kind = kind;
    m.serial = serial;
    return m;
  }
  ClientService::Action request(ClientId client, const control::Message& m) {
    return service_.on_request(now_, client, m);
  }
  // Requests what concerns no more than the client, and returns the answer.
  control::Message answer(ClientId client, const control::Message& m) {
    EXPECT_TRUE(std::holds_alternative<ClientService::Nothing>(request(client, m)));
    const std::optional<ClientMessage> reply = clients_.poll_message(client);
    return reply ? reply->message : control::Message{};
  }
  std::string refusal(ClientId client, const control::Message& m) {
    const control::Message reply = answer(client, m);
    return reply.kind == control::Kind::kRefused ? reply.refused.text : "";
  }
  ClientId attached() {
    const ClientId id = clients_.add();
    control::Message m = message(control::Kind::kAttach);
    m.attach = {1, 64 << 10, 16 << 10};
    EXPECT_EQ(answer(id, m).kind, control::Kind::kAttached);
    return id;
  }
  static control::Message listen_on(std::uint32_t port) {
    control::Message m = message(control::Kind::kListen);
    m.listen.port = port;
    m.listen.window_bytes = 4096;
    m.listen.protocol = stack::kMessages.value();
    return m;
  }
  static control::Message close_of(std::uint32_t port) {
    control::Message m = message(control::Kind::kClose);
    m.close.port = port;
    return m;
  }
  // Commands for proxies, in order; channels that were to be detached are.
  std::vector<AddressedCommand> carry_out_lanes() {
    std::vector<AddressedCommand> all;
    while (const std::optional<AddressedCommand> told = lanes_.poll_command()) {
      all.push_back(*told);
      if (const auto* const detach = std::get_if<DetachChannel>(&told->command))
        detached_.push_back(detach->channel);
    }
    return all;
  }
  void obey() {
    for (const Channel* const channel : std::exchange(detached_, {})) lanes_.detached(channel);
  }

  Instant now_ = Instant() + 1_s;
  ProxyMonitor monitor_{{.proxies = 2}, now_};
  Clients clients_{{.channel = {}, .memory_bytes = 4 << 20}, make_plain_region};
  Lanes lanes_{monitor_};
  Ports ports_{ClusterId(0), 2, clients_};
  DatagramPorts datagrams_;
  Protocols protocols_;
  ClientService service_{{.cluster = 0, .clusters = 2, .proxies = 2, .counters_fd = kCountersFd},
                         clients_,
                         lanes_,
                         ports_,
                         datagrams_,
                         protocols_};
  std::vector<Channel*> detached_;
};

TEST_F(ClientServiceTest, AttachedClientIsToldItsLayoutAndHasLanes) {
  const ClientId id = clients_.add();
  control::Message m = message(control::Kind::kAttach, 9);
  m.attach = {1, 64 << 10, 16 << 10};
  const control::Message reply = answer(id, m);
  EXPECT_EQ(reply.kind, control::Kind::kAttached);
  EXPECT_EQ(reply.serial, 9u);
  EXPECT_EQ(reply.attached.clusters, 2u);
  EXPECT_EQ(reply.attached.geometry.proxies, 2u);
  EXPECT_TRUE(lanes_.serves(id));
  EXPECT_EQ(refusal(id, m), "attached already");
}

TEST_F(ClientServiceTest, RequestOfAnUnknownOrGoneClientIsDropped) {
  EXPECT_TRUE(std::holds_alternative<ClientService::Nothing>(request(99, listen_on(80))));
  const ClientId id = attached();
  EXPECT_TRUE(service_.client_gone(id));
  (void)request(id, listen_on(80));
  EXPECT_FALSE(clients_.poll_message());
}

TEST_F(ClientServiceTest, CountersAreGivenWhereTheNodeHasThem) {
  const ClientId id = clients_.add();
  (void)request(id, message(control::Kind::kCounters));
  EXPECT_EQ(clients_.poll_message(id)->fd, kCountersFd);
  ClientService without({.clusters = 1, .counters_fd = -1}, clients_, lanes_, ports_, datagrams_, protocols_);
  (void)without.on_request(now_, id, message(control::Kind::kCounters));
  EXPECT_THAT(clients_.poll_message(id)->message.refused.text, HasSubstr("keeps its counters"));
}

TEST_F(ClientServiceTest, NumberOfActiveProxiesIsForTheNodeToSet) {
  const ClientId id = clients_.add();
  control::Message m = message(control::Kind::kSetProxies);
  m.set_proxies.active = 1;
  const ClientService::Action action = request(id, m);
  ASSERT_TRUE(std::holds_alternative<ClientService::SetActiveProxies>(action));
  EXPECT_EQ(std::get<ClientService::SetActiveProxies>(action).count, 1u);
  const std::optional<ClientMessage> reply = clients_.poll_message(id);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->message.set_proxies.active, 1u);
  EXPECT_EQ(reply->message.set_proxies.all, 2u);

  m.set_proxies.active = 0;
  EXPECT_EQ(answer(id, m).set_proxies.active, 2u) << "a question";
  m.set_proxies.active = 3;
  EXPECT_THAT(refusal(id, m), HasSubstr("so 1 to 2 can be active"));
}

TEST_F(ClientServiceTest, ConnectionWithAnotherMachineIsForTheNodeToMake) {
  const ClientId id = attached();
  control::Message m = message(control::Kind::kConnectMachine);
  m.connect_machine.connect.port = 80;
  m.connect_machine.connect.protocol = stack::kMessages.value();
  m.connect_machine.udp_port = 7699;
  m.connect_machine.nis = 1;
  m.connect_machine.addresses[0] = 0x0a000001;
  const ClientService::Action action = request(id, m);
  ASSERT_TRUE(std::holds_alternative<Machines::Request>(action));
  EXPECT_EQ(std::get<Machines::Request>(action).client, id);
  EXPECT_EQ(std::get<Machines::Request>(action).port, PortId(80));
  EXPECT_FALSE(clients_.poll_message()) << "it is answered when the connection is made";
}

TEST_F(ClientServiceTest, ConnectReachesClustersOfThisMachineOnly) {  // CN-10
  const ClientId id = attached();
  control::Message m = message(control::Kind::kConnect);
  m.connect.cluster = 2;
  m.connect.port = 80;
  m.connect.protocol = stack::kMessages.value();
  m.connect.window_bytes = 4096;
  m.connect.timeout_ms = 1000;
  EXPECT_EQ(refusal(id, m), convergence::to_string(convergence::Refusal::kNoSuchCluster));
  EXPECT_EQ(ports_.held_by(id), 0u);
  m.connect.cluster = 1;
  (void)request(id, m);
  EXPECT_EQ(ports_.held_by(id), 1u);
}

TEST_F(ClientServiceTest, ListenersOfAClientAreBoundedAndClosedOnesDoNotCount) {
  const ClientId id = attached(), other = attached();
  for (std::uint32_t port = 1; port <= ClientService::kMaxListeners; ++port)
    ASSERT_EQ(answer(id, listen_on(port)).kind, control::Kind::kOk) << port;
  const std::uint32_t next = ClientService::kMaxListeners + 1;
  EXPECT_THAT(refusal(id, listen_on(next)), HasSubstr("listens on 1024 ports already"));
  EXPECT_EQ(answer(other, listen_on(next)).kind, control::Kind::kOk) << "the bound is one client's";
  EXPECT_EQ(answer(id, close_of(1)).kind, control::Kind::kOk);
  EXPECT_EQ(refusal(id, listen_on(next)), convergence::to_string(convergence::Refusal::kPortTaken));
  EXPECT_EQ(answer(id, listen_on(next + 1)).kind, control::Kind::kOk) << "a refused one does not count";
}

TEST_F(ClientServiceTest, ClientWithoutMemoryIsForgottenAtOnce) {
  const ClientId id = clients_.add();
  EXPECT_TRUE(service_.client_gone(id));
  EXPECT_EQ(clients_.find(id), nullptr);
  EXPECT_FALSE(service_.client_gone(id));
}

TEST_F(ClientServiceTest, MemoryIsFreedWhenNoProxyUsesIt) {
  const ClientId id = attached();
  (void)carry_out_lanes();
  EXPECT_TRUE(service_.free_gone(monitor_).empty()) << "it is there";
  EXPECT_TRUE(service_.client_gone(id));
  EXPECT_FALSE(service_.client_gone(id)) << "once";
  EXPECT_TRUE(service_.free_gone(monitor_).empty());
  (void)carry_out_lanes();
  ASSERT_EQ(detached_.size(), 2u) << "each proxy has a channel";
  EXPECT_NE(clients_.find(id), nullptr);
  obey();
  const std::vector<AddressedCommand> commands = service_.free_gone(monitor_);
  ASSERT_EQ(commands.size(), 2u);
  for (unsigned p = 0; p < 2; ++p) {
    EXPECT_EQ(commands[p].proxy, p);
    EXPECT_EQ(std::get<UnmapClient>(commands[p].command).client, id);
  }
  EXPECT_EQ(clients_.find(id), nullptr);
}

TEST_F(ClientServiceTest, MemoryIsKeptWhileMessagesOfAStalledProxyAreLent) {  // FO-5
  const ClientId id = attached();
  (void)carry_out_lanes();
  EXPECT_TRUE(service_.client_gone(id));
  (void)service_.free_gone(monitor_);
  (void)carry_out_lanes();
  obey();
  monitor_.fence(1);
  EXPECT_TRUE(service_.free_gone(monitor_).empty());
  EXPECT_NE(clients_.find(id), nullptr);
  monitor_.forgotten(1, 0);
  const std::vector<AddressedCommand> commands = service_.free_gone(monitor_);
  ASSERT_EQ(commands.size(), 1u) << "the stalled proxy is told nothing";
  EXPECT_EQ(commands[0].proxy, 0u);
  EXPECT_EQ(clients_.find(id), nullptr);
}

TEST_F(ClientServiceTest, MemoryIsKeptUntilTheLastPortIsForgotten) {
  const ClientId id = attached();
  EXPECT_EQ(answer(id, listen_on(80)).kind, control::Kind::kOk);
  convergence::ControlMessage connect;
  connect.kind = convergence::ControlMessage::Kind::kConnect;
  connect.source = PortId(0x10001);
  connect.destination = PortId(80);
  connect.ordered = false;
  connect.protocol = stack::kMessages;
  connect.window_bytes = 4096;
  ports_.on_control(now_, ClusterId(1), connect);
  ASSERT_EQ(ports_.held_by(id), 1u);
  (void)carry_out_lanes();
  EXPECT_TRUE(service_.client_gone(id));
  std::optional<PortId> drains;
  while (const std::optional<Ports::Event> event = ports_.poll_event())
    if (event->kind == Ports::Event::Kind::kDrain) drains = event->end.port;
  ASSERT_TRUE(drains);
  EXPECT_TRUE(service_.free_gone(monitor_).empty());
  EXPECT_TRUE(carry_out_lanes().empty()) << "proxies may write to the port's memory";
  EXPECT_TRUE(lanes_.serves(id));

  ports_.drained(*drains);
  while (ports_.poll_event()) {
  }
  ASSERT_EQ(ports_.held_by(id), 0u);
  (void)service_.free_gone(monitor_);
  EXPECT_FALSE(carry_out_lanes().empty());
  EXPECT_FALSE(lanes_.serves(id));
}

}  // namespace
}  // namespace braid::proxy
