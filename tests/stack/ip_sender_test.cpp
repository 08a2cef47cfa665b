#include "stack/ip_sender.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/ethernet.h"
#include "stack/icmp_packets.h"
#include "stack/wire/checksum.h"

namespace braid::stack {
namespace {

constexpr LinkId kLink(0);
constexpr MacAddress kOurs(2, 0, 0, 0, 0, 1);
constexpr MacAddress kTheirs(2, 0, 0, 0, 0, 2);
constexpr Ipv4Address kUs(10, 0, 0, 1);
constexpr Ipv4Address kThem(10, 0, 0, 2);
constexpr std::uint32_t kMtu = 1500;

Instant at(Duration d) {
  return Instant::from_ns(1'000'000'000) + d;
}

struct IpSenderTest : testing::Test {
  explicit IpSenderTest() {
    EXPECT_TRUE(neighbours.add_static(kLink, kThem, kTheirs));
    sender.number_from(7);
  }
  // Queues a packet of so many bytes; false: no room.
  bool queue(Instant now, std::size_t bytes, Ipv4Address to = kThem) {
    OutgoingPacket* const p = sender.reserve();
    if (p == nullptr) return false;
    std::memset(p->payload, 0x5a, bytes);
    p->link = kLink;
    p->next_hop = to;
    p->source = kUs;
    p->destination = to;
    p->protocol = IpProtocol::kUdp;
    p->bytes = static_cast<std::uint32_t>(bytes);
    sender.push(now, *p);
    return true;
  }
  // The payloads of the frames that now leave.
  std::vector<Ipv4Packet> frames(Instant now) {
    std::vector<Ipv4Packet> all;
    rooms.clear();
    for (;;) {
      std::vector<std::byte>& room = rooms.emplace_back(kMtu + kEthernetHeaderBytes);
      const std::size_t length = sender.transmit_queued(now, kLink, neighbours, room);
      if (length == 0) return all;
      all.push_back(parsed(ByteView(room).first(length)));
    }
  }
  static Ipv4Packet parsed(ByteView frame) {
    Ipv4Packet ip;
    const Ipv4Parse parse = parse_ipv4(frame.subspan(kEthernetHeaderBytes), ip);
    EXPECT_TRUE(parse == Ipv4Parse::kOk || parse == Ipv4Parse::kFragment);
    return ip;
  }

  std::vector<Interface> links{{kUs, kOurs}};
  std::vector<LocalLink> local{{kLink, kOurs, kUs, false}};
  Neighbours neighbours{NeighboursConfig{}, local};
  IpSender sender{
      links,
      {.mtu_bytes = kMtu, .queued_packets = 2, .arp_timeout = 1_s, .proxies = 3, .long_packets = true}};
  std::vector<std::vector<std::byte>> rooms;
};

TEST_F(IpSenderTest, PacketsAreSentInOrderWithDistinctIdentifications) {  // IP-4
  ASSERT_TRUE(queue(at(0_s), 100));
  ASSERT_TRUE(queue(at(0_s), 200));
  EXPECT_FALSE(queue(at(0_s), 300));  // bounded
  EXPECT_FALSE(sender.idle());
  const std::vector<Ipv4Packet> sent = frames(at(0_s));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].payload.size(), 100u);
  EXPECT_EQ(sent[1].payload.size(), 200u);
  EXPECT_EQ(sent[0].identification, 7 + 4);  // three proxies, rounded up
  EXPECT_EQ(sent[1].identification, 7 + 8);
  EXPECT_TRUE(sender.idle());
  EXPECT_EQ(sender.counters().fragments_sent, 0u);
}

TEST_F(IpSenderTest, LongPacketLeavesInFragments) {  // IP-3
  ASSERT_TRUE(queue(at(0_s), 4000));
  const std::vector<Ipv4Packet> sent = frames(at(0_s));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].payload.size(), 1480u);
  EXPECT_EQ(sent[2].payload.size(), 4000u - 2 * 1480);
  EXPECT_EQ(sender.counters().packets_fragmented, 1u);
  EXPECT_EQ(sender.counters().fragments_sent, 3u);
}

TEST_F(IpSenderTest, UnresolvedPacketIsDroppedAfterItsTimeout) {  // ARP-1
  ASSERT_TRUE(queue(at(0_s), 100, Ipv4Address(10, 0, 0, 9)));
  ASSERT_TRUE(queue(at(0_s), 200));
  EXPECT_EQ(frames(at(0_s)).size(), 1u);  // the other one does not wait
  EXPECT_EQ(sender.next_deadline(), at(1_s));
  EXPECT_TRUE(frames(at(1_s)).empty());
  EXPECT_EQ(sender.counters().dropped, 1u);
  EXPECT_TRUE(sender.idle());
  EXPECT_EQ(sender.next_deadline(), Instant::never());
}

TEST_F(IpSenderTest, LongPacketOfASubConnectionLeavesFrameByFrame) {  // IP-3
  std::vector<std::byte> room(kMtu + kEthernetHeaderBytes);
  EXPECT_EQ(sender.transmit_long(kLink, room), 0u);
  std::memset(sender.long_room(kLink).data(), 1, 3000);
  std::size_t bytes =
      parsed(ByteView(room).first(sender.begin_long(kLink, kTheirs, kThem, 3000, room))).payload.size();
  EXPECT_TRUE(sender.any_long());
  EXPECT_EQ(sender.next_deadline(), Instant());
  while (const std::size_t length = sender.transmit_long(kLink, room))
    bytes += parsed(ByteView(room).first(length)).payload.size();
  EXPECT_EQ(bytes, 3000u);
  EXPECT_FALSE(sender.any_long());
}

TEST_F(IpSenderTest, HandoverCutsAReassembledPacketAgain) {
  std::vector<std::byte> payload(4000, std::byte{3});
  Ipv4Packet whole;
  whole.source = kThem;
  whole.destination = kUs;
  whole.protocol = IpProtocol::kUdp;
  whole.identification = 99;
  whole.payload = payload;
  EXPECT_TRUE(sender.next_handover(kLink).empty());
  sender.begin_handover(whole);
  std::size_t bytes = 0;
  for (ByteView f = sender.next_handover(kLink); !f.empty(); f = sender.next_handover(kLink)) {
    const Ipv4Packet part = parsed(f);
    EXPECT_EQ(part.identification, 99);
    EXPECT_EQ(part.source, kThem);
    bytes += part.payload.size();
  }
  EXPECT_EQ(bytes, 4000u);
}

TEST_F(IpSenderTest, EchoReplyReturnsTheRequestsBytes) {  // IC-1
  std::vector<std::byte> body(57, std::byte{9});
  Ipv4Packet request;
  request.source = kThem;
  request.destination = kUs;
  request.type_of_service = 4;
  OutgoingPacket& p = *sender.reserve();
  write_echo_reply(p, request, {.type = IcmpType::kEcho, .code = 0, .rest = 0x1234, .body = body});
  IcmpMessage reply;
  ASSERT_EQ(parse_icmp(ByteView(p.payload, p.bytes), reply), IcmpParse::kOk);
  EXPECT_EQ(reply.type, IcmpType::kEchoReply);
  EXPECT_EQ(reply.rest, 0x1234u);
  EXPECT_EQ(std::vector<std::byte>(reply.body.begin(), reply.body.end()), body);
  EXPECT_EQ(p.source, kUs);
  EXPECT_EQ(p.destination, kThem);
  EXPECT_EQ(p.type_of_service, 4);
}

TEST_F(IpSenderTest, IcmpErrorQuotesThePacket) {  // IC-2
  ASSERT_TRUE(queue(at(0_s), 100));
  const Ipv4Packet about = frames(at(0_s)).at(0);
  OutgoingPacket& p = *sender.reserve();
  write_icmp_error(p, about, IcmpType::kUnreachable, static_cast<std::uint8_t>(Unreachable::kPort));
  IcmpMessage error;
  ASSERT_EQ(parse_icmp(ByteView(p.payload, p.bytes), error), IcmpParse::kOk);
  IcmpQuote quote;
  ASSERT_TRUE(parse_icmp_quote(error.body, quote));
  EXPECT_EQ(quote.source, kUs);
  EXPECT_EQ(quote.destination, kThem);
  EXPECT_EQ(p.destination, kUs);
  Ipv4Packet answer;
  answer.protocol = IpProtocol::kIcmp;
  answer.payload = ByteView(p.payload, p.bytes);
  EXPECT_TRUE(is_icmp_error(answer));
  EXPECT_FALSE(is_icmp_error(about));
}

}  // namespace
}  // namespace braid::stack
