#include "proxy/daemon/protocols.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>

#include "proxy/daemon/datagram_outbox.h"
#include "proxy/daemon/datagram_ports.h"
#include "proxy/daemon/protocol_switch.h"

namespace braid::proxy::test {
namespace {

using Carries = Protocol::Carries;
using stack::ProtocolId;

class Answering final : public DatagramProtocol {
 public:
  Verdict receive(Instant, const Datagram&, Datagram&) override { return Verdict::kAnswered; }
};
MakeDatagramProtocol answering() {
  return [] { return std::make_unique<Answering>(); };
}

// ---------------------------------------------------------------- the registry and the switch

TEST(ProtocolsTest, NodeHasFourOfItsOwn) {  // PS-1
  const Protocols protocols;
  EXPECT_TRUE(protocols.carry(1, Carries::kConnections));
  EXPECT_TRUE(protocols.carry(2, Carries::kConnections));
  EXPECT_TRUE(protocols.carry(3, Carries::kDatagrams));
  EXPECT_TRUE(protocols.carry(4, Carries::kControl));
  for (const std::uint32_t id : {0u, 5u, 64u, 255u, 257u, 0x101u})
    for (const Carries carries : {Carries::kConnections, Carries::kDatagrams, Carries::kControl})
      EXPECT_FALSE(protocols.carry(id, carries)) << id;
  EXPECT_FALSE(protocols.carry(1, Carries::kDatagrams));
  EXPECT_FALSE(protocols.carry(4, Carries::kDatagrams));
}

TEST(ProtocolsTest, IdAndNameAreOfOneProtocolOnly) {  // PS-1
  Protocols protocols;
  EXPECT_FALSE(protocols.add(stack::kDatagrams, "mine", answering()).ok()) << "one of Braid's own";
  EXPECT_FALSE(protocols.add(ProtocolId(63), "mine", answering()).ok());
  EXPECT_FALSE(protocols.add(ProtocolId(64), "control", answering()).ok());
  EXPECT_FALSE(protocols.add(ProtocolId(64), "", answering()).ok());
  EXPECT_FALSE(protocols.add(ProtocolId(64), std::string(23, 'x'), answering()).ok());
  EXPECT_TRUE(protocols.add(ProtocolId(64), "mine", answering()).ok());
  EXPECT_TRUE(protocols.add_of_connections(ProtocolId(255), "links").ok());
  EXPECT_FALSE(protocols.add(ProtocolId(64), "other", answering()).ok());
  EXPECT_FALSE(protocols.add_of_connections(ProtocolId(65), "mine").ok());
  EXPECT_TRUE(protocols.carry(64, Carries::kDatagrams));
  EXPECT_TRUE(protocols.carry(255, Carries::kConnections));
  for (unsigned id = 100; protocols.all().size() < kMaxProtocols; ++id)
    EXPECT_TRUE(
        protocols.add_of_connections(ProtocolId(static_cast<std::uint8_t>(id)), fmt::format("p{}", id)).ok());
  EXPECT_FALSE(protocols.add(ProtocolId(200), "too many", answering()).ok());
}

TEST(ProtocolSwitchTest, EveryIdHasItsEntryOrTheOneThatCarriesNothing) {  // PS-1
  Protocols protocols;
  ASSERT_TRUE(protocols.add(ProtocolId(70), "mine", answering()).ok());
  ProtocolSwitch table(protocols);
  for (unsigned id = 0; id < 256; ++id) {
    const ProtocolSwitch::Entry& entry = table[ProtocolId(static_cast<std::uint8_t>(id))];
    const bool known = (id >= 1 && id <= 4) || id == 70;
    EXPECT_EQ(entry.carries != Carries::kNothing, known) << id;
    EXPECT_EQ(entry.datagrams != nullptr, id == 3 || id == 70) << id;
  }
  EXPECT_EQ(&table[ProtocolId(0)], &table[ProtocolId(255)]);
  EXPECT_NE(&table[stack::kMessages], &table[stack::kSharedMemory]);
}

TEST(ProtocolSwitchTest, PublishesWhatEachProtocolCounted) {
  ProtocolSwitch table{Protocols()};
  table[stack::kMessages].traffic = {1, 2, 3, 4, 5, 6};
  table[stack::kSharedMemory].traffic = {10, 20, 30, 40, 50, 60};
  table[stack::kDatagrams].traffic = {100, 200, 300, 400, 500, 600};
  table[ProtocolId(99)].traffic.refused = 7;
  const auto counters = std::make_unique<NodeCounters>();
  table.publish(counters->proxy[1]);
  const ProxyCounters& c = counters->proxy[1];
  EXPECT_EQ(c.messages_received.get(), 33u) << "of connections";
  EXPECT_EQ(c.message_bytes_received.get(), 44u);
  EXPECT_EQ(c.unknown_protocol.get(), 7u);
  EXPECT_EQ(c.protocol[1].sent.get(), 10u);
  EXPECT_EQ(c.protocol[1].returned.get(), 60u);
  EXPECT_EQ(c.protocol[2].refused.get(), 500u);
  EXPECT_EQ(c.protocol[3].sent.get(), 0u);
}

// ---------------------------------------------------------------- datagrams on their way out

Datagram datagram(std::uint16_t to, std::uint16_t bytes = 8) {
  Datagram d;
  d.peer = ClusterId(to);
  d.source = PortId(5);
  d.destination = PortId(6);
  d.bytes = bytes;
  d.data.fill(std::byte{0xd0});
  return d;
}

TEST(DatagramOutboxTest, MessageSaysWhatTheDatagramDoes) {  // PS-4
  DatagramOutbox outbox;
  Outgoing* const m = outbox.put(datagram(3, 24));
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->record.kind, stack::RecordKind::kDatagram);
  EXPECT_EQ(m->record.protocol, stack::kDatagrams);
  EXPECT_EQ(m->record.source, PortId(5));
  EXPECT_EQ(m->record.destination, PortId(6));
  EXPECT_EQ(m->record.message_bytes, 24u);
  EXPECT_EQ(m->bytes, 24u);
  EXPECT_EQ(m->data[23], std::byte{0xd0});
  EXPECT_EQ(m->to, ClusterId(3));
  Datagram back = datagram(3);
  back.returned = DatagramReturn::kNoRoom;
  Outgoing* const r = outbox.put(back);
  ASSERT_NE(r, nullptr);
  EXPECT_EQ(r->record.kind, stack::RecordKind::kReturned);
  EXPECT_EQ(r->record.skip, static_cast<std::uint16_t>(DatagramReturn::kNoRoom));
  EXPECT_EQ(outbox.in_flight(), 2u);
  EXPECT_EQ(outbox.finish(*m).bytes, 24u);
  EXPECT_EQ(outbox.finish(*r).returned, DatagramReturn::kNoRoom);
  EXPECT_EQ(outbox.in_flight(), 0u);
}

TEST(DatagramOutboxTest, ClusterHasAShareAndAllTogetherABound) {  // PS-6
  DatagramOutbox outbox;
  std::vector<Outgoing*> first;
  for (std::size_t i = 0; i < DatagramOutbox::kMaxPerCluster; ++i) {
    first.push_back(outbox.put(datagram(1)));
    ASSERT_NE(first.back(), nullptr);
  }
  EXPECT_EQ(outbox.put(datagram(1)), nullptr);
  for (std::uint16_t to = 2; outbox.in_flight() < DatagramOutbox::kMaxInFlight; ++to)
    for (std::size_t i = 0; i < DatagramOutbox::kMaxPerCluster; ++i)
      ASSERT_NE(outbox.put(datagram(to)), nullptr) << to << ": the others have theirs";
  EXPECT_EQ(outbox.put(datagram(60)), nullptr);
  (void)outbox.finish(*first.front());
  EXPECT_NE(outbox.put(datagram(60)), nullptr);
  outbox.clear();
  EXPECT_EQ(outbox.in_flight(), 0u);
  EXPECT_NE(outbox.put(datagram(1)), nullptr);
}

// ---------------------------------------------------------------- datagrams that wait for clients

TEST(DatagramPortsTest, DatagramWaitsForTheClientThatBoundItsPort) {  // PS-5
  DatagramPorts ports;
  EXPECT_EQ(ports.deliver(datagram(1)), DatagramReturn::kNoSuchPort);
  EXPECT_EQ(ports.bind(7, stack::kDatagrams, PortId(6)), DatagramPorts::Bound::kBound);
  EXPECT_EQ(ports.bind(7, stack::kDatagrams, PortId(6)), DatagramPorts::Bound::kBound);
  EXPECT_EQ(ports.bind(8, stack::kDatagrams, PortId(6)), DatagramPorts::Bound::kTaken);
  EXPECT_EQ(ports.bind(8, ProtocolId(70), PortId(6)), DatagramPorts::Bound::kBound) << "of another protocol";
  EXPECT_EQ(ports.deliver(datagram(1, 9)), DatagramReturn::kNone);
  EXPECT_FALSE(ports.take(8, stack::kDatagrams, PortId(6)));
  EXPECT_FALSE(ports.take(8, ProtocolId(70), PortId(6)));
  const std::optional<Datagram> taken = ports.take(7, stack::kDatagrams, PortId(6));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->bytes, 9u);
  EXPECT_FALSE(ports.take(7, stack::kDatagrams, PortId(6)));
}

TEST(DatagramPortsTest, ReturnedOneWaitsAtItsSourcePort) {  // PS-5
  DatagramPorts ports;
  EXPECT_EQ(ports.bind(7, stack::kDatagrams, PortId(5)), DatagramPorts::Bound::kBound);
  Datagram back = datagram(1);
  back.returned = DatagramReturn::kNoSuchPort;
  EXPECT_EQ(ports.deliver(back), DatagramReturn::kNone);
  ASSERT_TRUE(ports.take(7, stack::kDatagrams, PortId(5)));
}

TEST(DatagramPortsTest, WaitingOnesAndPortsOfAClientAreBounded) {  // PS-6
  DatagramPorts ports;
  EXPECT_EQ(ports.bind(7, stack::kDatagrams, PortId(6)), DatagramPorts::Bound::kBound);
  for (std::size_t i = 0; i < DatagramPorts::kMaxWaiting; ++i)
    EXPECT_EQ(ports.deliver(datagram(1)), DatagramReturn::kNone);
  EXPECT_EQ(ports.deliver(datagram(1)), DatagramReturn::kNoRoom);
  for (std::uint32_t i = 1; i < DatagramPorts::kMaxPortsPerClient; ++i)
    EXPECT_EQ(ports.bind(7, stack::kDatagrams, PortId(100 + i)), DatagramPorts::Bound::kBound);
  EXPECT_EQ(ports.bind(7, stack::kDatagrams, PortId(99)), DatagramPorts::Bound::kTooMany);
  ports.client_gone(7);
  EXPECT_FALSE(ports.is_bound_by(7, stack::kDatagrams, PortId(6)));
  EXPECT_EQ(ports.deliver(datagram(1)), DatagramReturn::kNoSuchPort);
}

}  // namespace
}  // namespace braid::proxy::test
