// Flows between two clients whose turns the test takes: they open, exchange what was planned and close; and every
// way in which a connection or a message can be wrong fails the world.
#include "tests/sim/fault_flows.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/sim/running_nodes.h"

namespace braid::sim {
namespace {

WorldConfig flow_config(double messages) {
  WorldConfig w = RunningNodes::config_of(2);
  w.flows = 1;
  w.clients = 1;
  w.endpoints = 1;
  w.messages = messages;
  w.unordered = w.closes = w.long_messages = 0;
  w.peer_death_ms = 10'000;
  return w;
}

// One flow between client 0 of node 0 and client 1 of node 1.
class Fixture : public RunningNodes, private FaultFlows::Clients {
 public:
  explicit Fixture(const WorldConfig& c = flow_config(40))
      : RunningNodes(c),
        plan(planned()),
        flows(config, random, events, log, nodes, trouble, static_cast<FaultFlows::Clients&>(*this)) {
    flows.plan(2);
    run(50_ms);  // the nodes reach each other
    for (unsigned client = 0; client < 2; ++client) attach(client);
  }
  unsigned caller() const { return plan.ends[0].client; }
  unsigned listener() const { return plan.ends[1].client; }
  std::uint64_t planned_messages() const {
    return std::uint64_t{plan.ends[0].messages} + plan.ends[1].messages;
  }

  void open() {
    begin(listener());
    begin(caller());
  }
  void begin(unsigned client) {
    bool worked = false;
    flows.begin(client, &worked);
  }
  void turn(unsigned client) {
    if (clients_[client] == nullptr) return;
    proxy::Endpoint& at = endpoint(client, 0);
    while (proxy::Connection* const accepted = at.try_accept()) flows.on_accept(client, *accepted);
    at.poll([&](proxy::Connection& from, ByteView message) { take(client, from, message); }, 64);
    bool worked = false;
    flows.advance(client, &worked);
    at.flush();
    nodes.wake_proxies(client);
  }
  // Turns of both clients until the flow is over or the world has failed. False: neither, in that time.
  bool ends_within(Duration time) {
    const Instant end = now() + time;
    while (now() < end && !flows.all_over() && !log.has_failed()) {
      for (const unsigned client : {caller(), listener()}) turn(client);
      run_until(now() + 50_us);
    }
    return flows.all_over() || log.has_failed();
  }
  void attach(unsigned client) {
    proxy::ClientOptions options;
    options.endpoints = 1;
    options.receive_bytes = std::max(2 * flows.receive_bytes(client), 64u << 10);
    options.send_bytes = 128u << 10;
    lives_[client] = nodes.life(client);
    auto made = proxy::Client::attach(
        std::make_unique<FaultService>(static_cast<FaultDriver&>(*this), nodes, client), options);
    ASSERT_TRUE(made.ok()) << made.error().text;
    clients_[client] = std::move(made).value();
  }
  void detach(unsigned client) { clients_[client].reset(); }

  const FlowPlan plan;
  FaultFlows flows;
  // Called for a message instead of handing it to the flows.
  std::function<void(unsigned, proxy::Connection&, ByteView)> on_message;

 private:
  // The plan that the flows will draw from the same random numbers.
  FlowPlan planned() const {
    Prng copy = random;
    return draw_flow(config, copy, 2, [](unsigned client) { return client; });
  }
  void take(unsigned client, proxy::Connection& from, ByteView message) {
    if (on_message)
      on_message(client, from, message);
    else
      flows.on_message(client, from, message);
  }

  // --- FaultFlows::Clients
  unsigned node_of(unsigned client) const override { return client; }
  proxy::Endpoint& endpoint(unsigned client, unsigned index) override {
    return clients_[client]->endpoint(index);
  }
  bool is_doomed(unsigned) const override { return false; }
  bool has_its_node(unsigned client) const override { return lives_[client] == nodes.life(client); }
  proxy::SendStatus send_waiting(unsigned, proxy::Connection&, ByteView, Duration, unsigned) override {
    ADD_FAILURE() << "no long messages were planned";
    return proxy::SendStatus::kTimeout;
  }
  bool anybody_waits() const override { return FaultDriver::anybody_waits(); }

  std::array<std::unique_ptr<proxy::Client>, 2> clients_;
  std::array<unsigned, 2> lives_{};
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(FaultFlows, APlannedFlowIsUnfinishedAndNeededByBothClients) {
  Fixture f;
  for (const FlowEndPlan& end : f.plan.ends) {
    EXPECT_TRUE(f.flows.has_flows(end.client));
    EXPECT_TRUE(f.flows.needs(end.client));
    EXPECT_EQ(f.flows.receive_bytes(end.client), end.window_bytes);
  }
  EXPECT_FALSE(f.flows.all_over());
  EXPECT_TRUE(contains(f.flows.unfinished(), "flow 0")) << f.flows.unfinished();
  EXPECT_EQ(f.flows.connections(), 0u);
}

TEST(FaultFlows, AllPlannedMessagesArriveOnceAndTheFlowCloses) {
  Fixture f;
  f.open();
  EXPECT_TRUE(f.ends_within(2_s)) << f.flows.unfinished();
  EXPECT_EQ(f.log.failure(), "");
  EXPECT_EQ(f.flows.messages(), f.planned_messages());
  EXPECT_GT(f.flows.messages(), 2u);
  EXPECT_EQ(f.flows.connections(), 2u);
  EXPECT_EQ(f.flows.unfinished(), "");
  for (unsigned client = 0; client < 2; ++client) EXPECT_FALSE(f.flows.needs(client));
}

TEST(FaultFlows, AFlowWhosePortIsNotOpenYetIsRefusedAndOver) {
  Fixture f;
  f.begin(f.caller());
  EXPECT_FALSE(f.flows.all_over()) << "its listener does not know";
  f.begin(f.listener());
  EXPECT_TRUE(f.flows.all_over());
  EXPECT_EQ(f.flows.connections(), 0u);
  EXPECT_EQ(f.log.failure(), "");
}

TEST(FaultFlows, AMessageThatArrivesTwiceFailsTheWorld) {
  Fixture f;
  f.on_message = [&](unsigned client, proxy::Connection& from, ByteView message) {
    f.flows.on_message(client, from, message);
    if (!f.log.has_failed()) f.flows.on_message(client, from, message);
  };
  f.open();
  EXPECT_TRUE(f.ends_within(2_s));
  EXPECT_TRUE(contains(f.log.failure(), "flow 0 (ordered, from client")) << f.log.failure();
  EXPECT_EQ(f.flows.messages(), 1u);
}

TEST(FaultFlows, AChangedMessageFailsTheWorld) {
  Fixture f;
  f.on_message = [&](unsigned client, proxy::Connection& from, ByteView message) {
    std::vector<std::byte> changed(message.begin(), message.end());
    if (changed.size() > 4) changed.back() ^= std::byte{1};
    if (!f.log.has_failed()) f.flows.on_message(client, from, changed);
  };
  f.open();
  EXPECT_TRUE(f.ends_within(2_s));
  EXPECT_TRUE(contains(f.log.failure(), "is not what was sent")) << f.log.failure();
}

TEST(FaultFlows, AMessageAfterAMissingOneFailsTheWorld) {
  Fixture f;
  int left_out = 0;
  f.on_message = [&](unsigned client, proxy::Connection& from, ByteView message) {
    if (client == f.listener() && left_out++ == 0) return;
    f.flows.on_message(client, from, message);
  };
  f.open();
  const bool ended = f.ends_within(200_ms);
  EXPECT_GT(left_out, 0);
  ASSERT_GT(f.plan.ends[0].messages, 1u) << "after the only message none arrives";
  EXPECT_TRUE(ended);
  EXPECT_TRUE(contains(f.log.failure(), "is next")) << f.log.failure();
}

TEST(FaultFlows, AMessageForAnotherClientFailsTheWorld) {
  Fixture f;
  f.on_message = [&](unsigned client, proxy::Connection& from, ByteView message) {
    if (!f.log.has_failed()) f.flows.on_message(1 - client, from, message);
  };
  f.open();
  EXPECT_TRUE(f.ends_within(2_s));
  EXPECT_TRUE(contains(f.log.failure(), "it came to another client")) << f.log.failure();
  EXPECT_EQ(f.flows.messages(), 0u);
}

TEST(FaultFlows, TheFlowOfAClientThatIsGoneEndsAtItsPeer) {
  Fixture f(flow_config(100'000));  // more than there is time for
  f.open();
  EXPECT_FALSE(f.ends_within(20_ms));
  EXPECT_EQ(f.flows.connections(), 2u);
  f.flows.on_client_gone(f.listener());
  f.detach(f.listener());
  EXPECT_FALSE(f.flows.needs(f.listener()));
  EXPECT_TRUE(f.flows.needs(f.caller()));
  EXPECT_TRUE(f.ends_within(2_s)) << f.flows.unfinished();
  EXPECT_EQ(f.log.failure(), "");
}

TEST(FaultFlows, ACloseByAPeerThatHasTheFlowOpenFailsTheWorld) {
  Fixture f(flow_config(100'000));
  f.open();
  EXPECT_FALSE(f.ends_within(20_ms));
  f.detach(f.listener());  // and the flows are not told
  EXPECT_TRUE(f.ends_within(2_s));
  EXPECT_TRUE(contains(f.log.failure(), "was closed, and its peer has it open")) << f.log.failure();
}

TEST(FaultFlows, ForgottenFlowsNeedNoTurns) {
  Fixture f;
  f.flows.forget();
  for (unsigned client = 0; client < 2; ++client) {
    EXPECT_FALSE(f.flows.has_flows(client));
    EXPECT_FALSE(f.flows.needs(client));
    EXPECT_EQ(f.flows.receive_bytes(client), 0u);
  }
  f.open();
  EXPECT_EQ(f.flows.connections(), 0u);
}

}  // namespace
}  // namespace braid::sim
