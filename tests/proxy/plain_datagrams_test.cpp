#include "proxy/daemon/plain_datagrams.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace braid::proxy {
namespace {

using Received = stack::Stack::Received;

const stack::Endpoint kPeer{stack::Ipv4Address(10, 0, 0, 2), 4711};

PlainDatagram datagram(std::uint16_t port) {
  PlainDatagram d;
  d.port = port;
  return d;
}
Received received(ByteView bytes, std::uint16_t port = 7699) {
  Received r;
  r.what = Received::What::kDatagram;
  r.port = port;
  r.peer = kPeer;
  r.datagram = bytes;
  return r;
}

TEST(PlainDatagramsTest, OutgoingOnesLeaveOnceInOrder) {
  PlainDatagrams datagrams;
  EXPECT_EQ(datagrams.drain_outgoing([](const PlainDatagram&) { FAIL(); }), 0);
  datagrams.send(datagram(1));
  datagrams.send(datagram(2));
  std::vector<int> ports;
  EXPECT_EQ(datagrams.drain_outgoing([&](const PlainDatagram& d) { ports.push_back(d.port); }), 2);
  EXPECT_EQ(ports, (std::vector<int>{1, 2}));
  EXPECT_EQ(datagrams.drain_outgoing([](const PlainDatagram&) { FAIL(); }), 0);
}

TEST(PlainDatagramsTest, ArrivedOneIsCopiedWithItsPeer) {
  PlainDatagrams datagrams;
  std::vector<std::byte> bytes(PlainDatagram::kMaxBytes, std::byte{7});
  datagrams.arrived(received(bytes));
  bytes.assign(bytes.size(), std::byte{9});  // the frame's buffer is used again
  PlainDatagram d;
  ASSERT_TRUE(datagrams.take_arrived(&d));
  EXPECT_EQ(d.port, 7699);
  EXPECT_EQ(d.peer, kPeer);
  EXPECT_FALSE(d.unreachable.has_value());
  ASSERT_EQ(d.bytes, PlainDatagram::kMaxBytes);
  EXPECT_EQ(d.data.front(), std::byte{7});
  EXPECT_EQ(d.data.back(), std::byte{7});
  EXPECT_FALSE(datagrams.take_arrived(&d));
}

TEST(PlainDatagramsTest, TooLongOneIsDropped) {
  PlainDatagrams datagrams;
  const std::vector<std::byte> bytes(PlainDatagram::kMaxBytes + 1);
  datagrams.arrived(received(bytes));
  PlainDatagram d;
  EXPECT_FALSE(datagrams.take_arrived(&d));
}

TEST(PlainDatagramsTest, UndeliverableOneHasAReasonAndNoBytes) {
  PlainDatagrams datagrams;
  Received r;
  r.what = Received::What::kUnreachable;
  r.port = 7699;
  r.peer = kPeer;
  r.reason = stack::Unreachable::kPort;
  datagrams.arrived(r);
  PlainDatagram d;
  ASSERT_TRUE(datagrams.take_arrived(&d));
  EXPECT_EQ(d.unreachable, stack::Unreachable::kPort);
  EXPECT_EQ(d.port, 7699);
  EXPECT_EQ(d.peer, kPeer);
  EXPECT_EQ(d.bytes, 0u);
}

TEST(PlainDatagramsTest, FullRingKeepsTheOldestAndDropsTheRest) {
  PlainDatagrams datagrams;
  for (std::uint16_t port = 0; port < PlainDatagrams::kWaiting + 5; ++port) {
    datagrams.send(datagram(port));
    datagrams.arrived(received({}, port));
  }
  std::uint16_t next = 0;
  EXPECT_EQ(datagrams.drain_outgoing([&](const PlainDatagram& d) { EXPECT_EQ(d.port, next++); }),
            static_cast<int>(PlainDatagrams::kWaiting));
  next = 0;
  for (PlainDatagram d; datagrams.take_arrived(&d);) EXPECT_EQ(d.port, next++);
  EXPECT_EQ(next, PlainDatagrams::kWaiting);
}

}  // namespace
}  // namespace braid::proxy
