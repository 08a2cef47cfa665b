// Protocols beside each other, through real workers: which records each one gets, what comes back, what is counted.
#include <gmock/gmock.h>

#include "examples/remote_counter.h"
#include "proxy/client/datagrams.h"
#include "tests/proxy/machine.h"

namespace braid::proxy::test {
namespace {

using examples::RemoteCounters;
using ::testing::HasSubstr;

constexpr PortId kPort{9};
constexpr PortId kAsker{500};

Protocols with_counters() {
  Protocols protocols;
  CHECK(protocols.add(RemoteCounters::kId, "remote_counters", RemoteCounters::protocol()).ok());
  return protocols;
}

// Two clusters of two proxies; a client of each, which drive all.
class NodeProtocols : public ::testing::Test {
 protected:
  void start(const Protocols& first = {}, const Protocols& second = {}) {
    NodesOptions o;
    o.proxies = {2, 2};
    o.protocols = {first, second};
    nodes_ = std::make_unique<Nodes>(o);
    a_ = nodes_->client(0);
    b_ = nodes_->client(1);
  }
  static Datagrams must_bind(Client& client, PortId port, stack::ProtocolId protocol = stack::kDatagrams) {
    Result<Datagrams> bound = Datagrams::bind(client, port, protocol);
    CHECK(bound.ok());
    return std::move(bound).value();
  }
  static std::vector<std::byte> number(std::uint64_t n) {
    std::vector<std::byte> bytes(sizeof n);
    store(bytes.data(), n);
    return bytes;
  }
  // The sum over a cluster's proxies of what is counted for the protocol.
  std::uint64_t count(unsigned cluster, const std::string& name) {
    std::uint64_t sum = 0;
    Node& node = *nodes_->node(cluster);
    for (unsigned p = 0; p < node.proxies(); ++p) {
      node.worker(p).publish_counters();
      for_each_protocol_counter(node.all_counters(), p, [&](const std::string& counter, std::uint64_t value) {
        if (counter == name) sum += value;
      });
    }
    return sum;
  }

  std::unique_ptr<Nodes> nodes_;
  std::unique_ptr<Client> a_;
  std::unique_ptr<Client> b_;
};

TEST_F(NodeProtocols, EachConnectionCountsForItsProtocol) {  // PS-1
  start();
  ConnectionOptions shared;
  shared.protocol = stack::kSharedMemory;
  const Pair messages = connect(a_->endpoint(0), ClusterId(1), b_->endpoint(0), kPort);
  const Pair pages = connect(a_->endpoint(0), ClusterId(1), b_->endpoint(0), PortId(10), shared);
  for (std::uint32_t i = 0; i < 5; ++i)
    ASSERT_EQ(messages.out->try_send(numbered(i, 100)), SendStatus::kSent);
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_EQ(pages.out->try_send(numbered(i, 5000)), SendStatus::kSent);
  int got = 0;
  ASSERT_TRUE(until(
      [&] {
        a_->endpoint(0).poll(ignore());
        got += b_->endpoint(0).poll(ignore());
      },
      [&] { return got == 8; }));
  EXPECT_EQ(count(0, "messages.sent"), 5u);
  EXPECT_EQ(count(1, "messages.received"), 5u);
  EXPECT_EQ(count(1, "messages.received_bytes"), 500u);
  EXPECT_EQ(count(0, "shared_memory.sent"), 3u);
  EXPECT_EQ(count(0, "shared_memory.sent_bytes"), 15'000u);
  EXPECT_EQ(count(1, "shared_memory.received_bytes"), 15'000u);
  EXPECT_GT(count(0, "control.sent"), 0u);
  EXPECT_EQ(count(1, "datagrams.received"), 0u);
  for (const char* protocol : {"messages", "shared_memory", "datagrams", "control"})
    EXPECT_EQ(count(1, std::string(protocol) + ".refused"), 0u) << protocol;
}

TEST_F(NodeProtocols, BothEndsAgreeOnTheProtocol) {  // PS-2
  start();
  ConnectionOptions shared;
  shared.protocol = stack::kSharedMemory;
  ASSERT_TRUE(b_->endpoint(0).listen(kPort, shared).ok());
  const Result<Connection*> refused = a_->endpoint(0).connect(ClusterId(1), kPort, {}, 20_s);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("of another protocol"));
  EXPECT_TRUE(a_->endpoint(0).connect(ClusterId(1), kPort, shared, 20_s).ok());
}

TEST_F(NodeProtocols, ProtocolsThatTheNodeDoesNotHaveAreRefusedToItsClients) {  // PS-2
  start();
  ConnectionOptions options;
  for (const auto protocol : {stack::ProtocolId(), stack::kDatagrams, stack::kControl, RemoteCounters::kId}) {
    SCOPED_TRACE(protocol.value());
    options.protocol = protocol;
    EXPECT_FALSE(a_->endpoint(0).listen(kPort, options).ok());
    const Result<Connection*> refused = a_->endpoint(0).connect(ClusterId(1), kPort, options, 1_s);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().text, HasSubstr("is not registered at this node for connections"));
  }
  for (const auto protocol : {stack::ProtocolId(), stack::kMessages, stack::kControl, RemoteCounters::kId})
    EXPECT_FALSE(Datagrams::bind(*a_, kPort, protocol).ok()) << protocol.value();
}

// ---------------------------------------------------------------- datagrams

TEST_F(NodeProtocols, DatagramsArriveWithoutAConnection) {  // PS-4
  start();
  Datagrams from = must_bind(*a_, kAsker);
  Datagrams to = must_bind(*b_, kPort);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, control::kMaxDatagramBytes}) {
    const std::vector<std::byte> content(bytes, std::byte{7});
    ASSERT_TRUE(from.send(ClusterId(1), kPort, content).ok());
    const Result<ReceivedDatagram> got = to.receive(20_s);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->returned, DatagramReturn::kNone);
    EXPECT_EQ(got->peer, ClusterId(0));
    EXPECT_EQ(got->source, kAsker);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), got->content().begin(), got->content().end()));
  }
  EXPECT_EQ(count(0, "datagrams.sent"), 3u);
  EXPECT_EQ(count(1, "datagrams.received"), 3u);
  EXPECT_EQ(count(0, "datagrams.returned"), 0u);
  EXPECT_FALSE(from.send(ClusterId(1), kPort, std::vector<std::byte>(control::kMaxDatagramBytes + 1)).ok());
  EXPECT_FALSE(from.send(ClusterId(0), kPort, {}).ok()) << "its own cluster";
  EXPECT_FALSE(from.send(ClusterId(9), kPort, {}).ok());
}

TEST_F(NodeProtocols, DatagramForAnUnboundPortComesBack) {  // PS-5
  start();
  Datagrams from = must_bind(*a_, kAsker);
  ASSERT_TRUE(from.send(ClusterId(1), kPort, number(42)).ok());
  const Result<ReceivedDatagram> back = from.receive(20_s);
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->returned, DatagramReturn::kNoSuchPort);
  EXPECT_EQ(back->peer, ClusterId(1));
  EXPECT_EQ(back->source, kAsker);
  EXPECT_EQ(back->destination, kPort);
  EXPECT_EQ(load<std::uint64_t>(back->data.data()), 42u);
  EXPECT_EQ(count(0, "datagrams.returned"), 1u);
  EXPECT_EQ(count(1, "datagrams.refused"), 1u);
}

// Each is delivered or comes back, however many wait.
TEST_F(NodeProtocols, DatagramsWithoutRoomComeBack) {  // PS-5, PS-6
  start();
  Datagrams from = must_bind(*a_, kAsker);
  Datagrams to = must_bind(*b_, kPort);
  constexpr unsigned kSent = DatagramPorts::kMaxWaiting + 30;
  unsigned returned = 0;
  const auto take_returned = [&] {
    for (Result<std::optional<ReceivedDatagram>> d = from.try_receive(); d.ok() && d->has_value();
         d = from.try_receive()) {
      EXPECT_EQ((*d)->returned, DatagramReturn::kNoRoom);
      ++returned;
    }
  };
  for (unsigned i = 0; i < kSent; ++i) {
    ASSERT_TRUE(until(take_returned, [&] { return from.send(ClusterId(1), kPort, number(i)).ok(); }));
  }
  ASSERT_TRUE(until(take_returned, [&] { return returned >= kSent - DatagramPorts::kMaxWaiting; }));
  unsigned delivered = 0;
  const auto take_all = [&] {
    take_returned();
    while (to.try_receive()->has_value()) ++delivered;
  };
  ASSERT_TRUE(until(take_all, [&] { return delivered + returned == kSent; }));
  EXPECT_LE(delivered, DatagramPorts::kMaxWaiting);
  EXPECT_GT(delivered, 0u);
}

TEST_F(NodeProtocols, DatagramsOfAClientThatEndedAreNoLongerKept) {  // PS-5
  start();
  Datagrams from = must_bind(*a_, kAsker);
  (void)must_bind(*b_, kPort);
  EXPECT_FALSE(Datagrams::bind(*nodes_->client(1), kPort).ok()) << "it is taken";
  b_.reset();
  b_ = nodes_->client(1);
  ASSERT_TRUE(from.send(ClusterId(1), kPort, {}).ok());
  const Result<ReceivedDatagram> back = from.receive(20_s);
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->returned, DatagramReturn::kNoSuchPort);
  (void)must_bind(*b_, kPort);
}

// ---------------------------------------------------------------- a protocol of one's own

TEST_F(NodeProtocols, ProxiesServeAProtocolOfOnesOwn) {  // PS-1
  start(with_counters(), with_counters());
  Datagrams asker = must_bind(*a_, kAsker, RemoteCounters::kId);
  std::uint64_t sum = 0;
  for (std::uint64_t n = 1; n <= 20; ++n) {
    ASSERT_TRUE(asker.send(ClusterId(1), PortId(3), number(n)).ok());
    const Result<ReceivedDatagram> answer = asker.receive(20_s);
    ASSERT_TRUE(answer.ok()) << answer.error().text;
    sum += n;
    EXPECT_EQ(answer->returned, DatagramReturn::kNone);
    EXPECT_EQ(answer->source, PortId(3));
    EXPECT_EQ(load<std::uint64_t>(answer->data.data()), sum);
  }
  ASSERT_TRUE(asker.send(ClusterId(1), PortId(3), std::vector<std::byte>(5)).ok());
  const Result<ReceivedDatagram> back = asker.receive(20_s);
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->returned, DatagramReturn::kRefused) << "5 bytes are no number";
  EXPECT_EQ(count(1, "remote_counters.received"), 20u);
  EXPECT_EQ(count(1, "remote_counters.sent"), 20u);
  EXPECT_EQ(count(1, "remote_counters.refused"), 1u);
  EXPECT_EQ(count(0, "remote_counters.returned"), 1u);
  EXPECT_EQ(count(1, "datagrams.received"), 0u);
}

TEST_F(NodeProtocols, DatagramOfAProtocolThatThePeerDoesNotHaveComesBack) {  // PS-3
  start(with_counters(), {});
  Datagrams asker = must_bind(*a_, kAsker, RemoteCounters::kId);
  ASSERT_TRUE(asker.send(ClusterId(1), PortId(3), number(1)).ok());
  const Result<ReceivedDatagram> back = asker.receive(20_s);
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->returned, DatagramReturn::kUnknownProtocol);
  nodes_->run(1_ms);
  std::uint64_t unknown = 0;
  for (unsigned p = 0; p < 2; ++p) {
    nodes_->node(1)->worker(p).publish_counters();
    unknown += nodes_->node(1)->counters(p).unknown_protocol.get();
  }
  EXPECT_EQ(unknown, 1u);
  EXPECT_EQ(count(0, "remote_counters.returned"), 1u);
}

}  // namespace
}  // namespace braid::proxy::test
