// ICMP messages that are sent, and those that are withheld.
#include "stack/icmp_sender.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "stack/datagram.h"
#include "wire_bytes.h"

namespace braid::stack {
namespace {

constexpr LinkId kLink(0);
constexpr MacAddress kOurs(2, 0, 0, 0, 0, 1), kTheirs(2, 0, 0, 0, 0, 2);
constexpr Ipv4Address kUs(10, 0, 0, 1), kThem(10, 0, 0, 2), kFar(192, 168, 0, 1);

Instant at(Duration d) {
  return Instant::from_ns(1'000'000'000) + d;
}

struct IcmpSenderTest : testing::Test {
  IcmpSenderTest() { EXPECT_TRUE(neighbours.add_static(kLink, kThem, kTheirs)); }

  // A packet from `source` as it arrived; its bytes live as long as the test.
  Ipv4Packet arrived(IpProtocol protocol, const Bytes& payload, Ipv4Address source = kThem) {
    packets.emplace_back(kIpv4HeaderBytes);
    write_ipv4(packets.back(),
               {.source = source, .destination = kUs, .protocol = protocol, .payload_bytes = payload.size()});
    packets.back().insert(packets.back().end(), payload.begin(), payload.end());
    Ipv4Packet ip;
    EXPECT_EQ(parse_ipv4(packets.back(), ip), Ipv4Parse::kOk);
    return ip;
  }
  // The next packet that leaves; nullopt: none.
  std::optional<Ipv4Packet> sent(Instant now) {
    const std::size_t length = sender.transmit_queued(now, kLink, neighbours, room);
    if (length == 0) return std::nullopt;
    Ipv4Packet ip;
    EXPECT_EQ(parse_ipv4(ByteView(room).first(length).subspan(kEthernetHeaderBytes), ip), Ipv4Parse::kOk);
    return ip;
  }
  void report_port(Instant now, const Ipv4Packet& about) {
    icmp.report_error(now, kLink, about, IcmpType::kUnreachable,
                      static_cast<std::uint8_t>(Unreachable::kPort));
  }

  std::vector<Interface> links{{kUs, kOurs, 24, std::nullopt}};
  std::vector<LocalLink> local{{kLink, kOurs, kUs, false}};
  Neighbours neighbours{NeighboursConfig{}, local};
  IpSender sender{links, {.queued_packets = 2}};
  IcmpSender icmp{links, sender, 10, 3};
  Bytes room = Bytes(1514);
  std::deque<Bytes> packets;
};

TEST_F(IcmpSenderTest, EchoReplyRepeatsTheRequest) {  // IC-1
  const Bytes body = bytes("ping");
  icmp.answer_echo(at(0_s), kLink, arrived(IpProtocol::kIcmp, {}),
                   {.type = IcmpType::kEcho, .rest = 0x0102'0003, .body = body});
  const std::optional<Ipv4Packet> ip = sent(at(0_s));
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->destination, kThem);
  IcmpMessage reply;
  ASSERT_EQ(parse_icmp(ip->payload, reply), IcmpParse::kOk);
  EXPECT_EQ(reply.type, IcmpType::kEchoReply);
  EXPECT_EQ(reply.rest, 0x0102'0003u);
  EXPECT_TRUE(same(reply.body, body));
  EXPECT_EQ(icmp.counters().echoes_answered, 1u);
}

TEST_F(IcmpSenderTest, EchoIsDroppedWithoutRoomOrNextHop) {  // IC-1
  const IcmpMessage echo{.type = IcmpType::kEcho, .body = {}};
  icmp.answer_echo(at(0_s), kLink, arrived(IpProtocol::kIcmp, {}, kFar), echo);
  EXPECT_EQ(icmp.counters().echoes_dropped, 1u) << "no gateway";
  for (int i = 0; i < 3; ++i) icmp.answer_echo(at(0_s), kLink, arrived(IpProtocol::kIcmp, {}), echo);
  EXPECT_EQ(icmp.counters().echoes_answered, 2u);
  EXPECT_EQ(icmp.counters().echoes_dropped, 2u);
}

TEST_F(IcmpSenderTest, ErrorQuotesThePacket) {  // IC-2
  Bytes datagram(kUdpHeaderBytes + 100);
  write_udp(datagram, {.source = kThem, .destination = kUs, .source_port = 9, .destination_port = 5001}, 0);
  report_port(at(0_s), arrived(IpProtocol::kUdp, datagram));
  const std::optional<Ipv4Packet> ip = sent(at(0_s));
  ASSERT_TRUE(ip);
  IcmpMessage error;
  ASSERT_EQ(parse_icmp(ip->payload, error), IcmpParse::kOk);
  EXPECT_EQ(error.type, IcmpType::kUnreachable);
  EXPECT_EQ(error.code, static_cast<std::uint8_t>(Unreachable::kPort));
  IcmpQuote quote;
  ASSERT_TRUE(parse_icmp_quote(error.body, quote));
  EXPECT_EQ(quote.source, kThem);
  EXPECT_EQ(quote.source_port, 9u);
  EXPECT_EQ(quote.destination_port, 5001u);
}

TEST_F(IcmpSenderTest, NoErrorIsReportedAboutAnError) {  // IC-2
  const Bytes unreachable = bytes({3, 1, 0, 0, 0, 0, 0, 0});
  report_port(at(0_s), arrived(IpProtocol::kIcmp, unreachable));
  EXPECT_FALSE(sent(at(0_s)));
  EXPECT_EQ(icmp.counters().errors_withheld, 0u);
}

TEST_F(IcmpSenderTest, ErrorsAreLimited) {  // IC-2
  const auto report = [&](Duration d) {
    const std::uint64_t before = icmp.counters().errors_sent;
    report_port(at(d), arrived(IpProtocol::kUdp, Bytes(8)));
    (void)sent(at(d));
    return icmp.counters().errors_sent > before;
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(report(0_s));
  EXPECT_FALSE(report(0_s));
  EXPECT_FALSE(report(99_ms));
  EXPECT_TRUE(report(100_ms));
  EXPECT_EQ(icmp.counters().errors_withheld, 2u);
  report_port(at(10_s), arrived(IpProtocol::kUdp, Bytes(8), kFar));
  EXPECT_EQ(icmp.counters().errors_withheld, 3u) << "no gateway";
}

TEST_F(IcmpSenderTest, DatagramIsWrittenWithItsChecksum) {  // UDP-1
  OutgoingPacket* const packet = sender.reserve();
  ASSERT_NE(packet, nullptr);
  packet->link = kLink;
  packet->next_hop = kThem;
  packet->source = kUs;
  write_datagram(*packet, 5000, {kThem, 6000}, bytes("text"));
  sender.push(at(0_s), *packet);
  const std::optional<Ipv4Packet> ip = sent(at(0_s));
  ASSERT_TRUE(ip);
  UdpDatagram udp;
  ASSERT_EQ(parse_udp(ip->payload, ip->source, ip->destination, udp), UdpParse::kOk);
  EXPECT_TRUE(udp.has_checksum);
  EXPECT_EQ(udp.source_port, 5000u);
  EXPECT_EQ(udp.destination_port, 6000u);
  EXPECT_TRUE(same(udp.payload, bytes("text")));
}

}  // namespace
}  // namespace braid::stack
