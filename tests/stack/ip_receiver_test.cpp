// The contents and the destination of a frame: each kind of arrival, and the frames that are counted and dropped.
#include "stack/ip_receiver.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "stack/wire/ethernet.h"
#include "stack/wire/udp.h"
#include "wire_bytes.h"

namespace braid::stack {
namespace {

constexpr LinkId kLink(0), kOtherLink(1);
constexpr MacAddress kOurMac(2, 0, 0, 0, 0, 1), kTheirMac(2, 0, 0, 0, 0, 2);
constexpr Ipv4Address kUs(10, 0, 0, 1), kUsThere(10, 1, 0, 1), kThem(10, 0, 0, 2);
constexpr std::uint16_t kBase = 7700, kBound = 5000, kClosed = 5001;

Bytes ip_frame(IpProtocol protocol, const Bytes& payload, Ipv4Fields fields = {}) {
  Bytes f(kEthernetHeaderBytes + kIpv4HeaderBytes);
  write_ethernet(f, kOurMac, kTheirMac, EtherType::kIpv4);
  fields.source = kThem;
  if (fields.destination == Ipv4Address()) fields.destination = kUs;
  fields.protocol = protocol;
  fields.payload_bytes = payload.size();
  write_ipv4(MutableBytes(f).subspan(kEthernetHeaderBytes), fields);
  f.insert(f.end(), payload.begin(), payload.end());
  return f;
}

Bytes udp(std::uint16_t to, const Bytes& payload) {
  Bytes d(kUdpHeaderBytes);
  write_udp(d,
            {.source = kThem,
             .destination = kUs,
             .source_port = 9,
             .destination_port = to,
             .payload_bytes = payload.size()},
            checksum_add(0, payload));
  d.insert(d.end(), payload.begin(), payload.end());
  return d;
}
Bytes udp_frame(std::uint16_t to, const Bytes& payload) {
  return ip_frame(IpProtocol::kUdp, udp(to, payload));
}
Bytes without_checksum(Bytes frame) {
  return with(with(std::move(frame), kFlowHeaderBytes - 2, 0), kFlowHeaderBytes - 1, 0);
}

Bytes icmp(IcmpType type, std::uint8_t code, std::uint32_t rest, const Bytes& body) {
  Bytes m(kIcmpHeaderBytes);
  write_icmp(m, type, code, rest, checksum_add(0, body));
  m.insert(m.end(), body.begin(), body.end());
  return m;
}
// A report that our UDP packet from `source_port` did not reach port 6000 of `kThem`.
Bytes unreachable(std::uint16_t source_port, Ipv4Address source = kUs) {
  Bytes quoted(kIpv4HeaderBytes + kUdpHeaderBytes);
  write_ipv4(quoted, {.source = source, .destination = kThem, .payload_bytes = kUdpHeaderBytes});
  write_udp(MutableBytes(quoted).subspan(kIpv4HeaderBytes),
            {.source = source, .destination = kThem, .source_port = source_port, .destination_port = 6000},
            0);
  return ip_frame(IpProtocol::kIcmp, icmp(IcmpType::kUnreachable,
                                          static_cast<std::uint8_t>(Unreachable::kTooBig), 1400, quoted));
}

struct IpReceiverTest : testing::Test {
  explicit IpReceiverTest(unsigned own = 0) : ports(kBase, own, 2) {
    if (own == kDatagramProxy) {
      EXPECT_TRUE(ports.bind(kBound));
    }
  }
  IpArrival receive(const Bytes& frame, LinkId link = kLink) {
    frames.push_back(frame);
    return receiver.receive(now, link, frames.back());
  }
  bool is_nothing(const Bytes& frame) { return std::holds_alternative<std::monostate>(receive(frame).what); }
  template <class T>
  T only(const Bytes& frame) {
    const IpArrival arrival = receive(frame);
    EXPECT_TRUE(std::holds_alternative<T>(arrival.what)) << arrival.what.index();
    return std::holds_alternative<T>(arrival.what) ? std::get<T>(arrival.what) : T{};
  }

  Instant now = Instant::from_ns(1'000'000'000);
  std::vector<Interface> links{{kUs, kOurMac, 24}, {kUsThere, kOurMac, 24}};
  UdpPorts ports;
  IpReceiver receiver{links, ports, ReassemblyConfig{}};
  std::deque<Bytes> frames;
};
struct IpReceiverOfProxy1Test : IpReceiverTest {
  IpReceiverOfProxy1Test() : IpReceiverTest(1) {}
};

TEST_F(IpReceiverTest, PacketForThisProxyTakesTheShortCutOrNotAlike) {
  const Bytes payload = bytes("packet");
  const Bytes frame = udp_frame(kBase, payload);
  EXPECT_TRUE(same(receiver.match(kLink, frame), payload));
  EXPECT_TRUE(same(only<ProxyPacket>(frame).payload, payload));
  EXPECT_EQ(receiver.match(kOtherLink, frame).data(), nullptr) << "the address of another link";
}

TEST_F(IpReceiverTest, PortOfAProxyTakesNoPacketWithoutAChecksum) {  // UDP-1, SC-9
  EXPECT_TRUE(is_nothing(without_checksum(udp_frame(kBase, bytes("packet")))));
  EXPECT_EQ(receiver.counters().bad_udp, 1u);
}

TEST_F(IpReceiverTest, PacketForAnotherProxyIsNotVerified) {  // UDP-2
  const Misdirected packet = only<Misdirected>(flipped(udp_frame(kBase + 1, bytes("packet")), 8 * 43));
  EXPECT_EQ(packet.proxy, 1u);
  EXPECT_EQ(receiver.counters().bad_udp, 0u) << "that one's stack verifies it";
}

TEST_F(IpReceiverTest, BoundPortTakesADatagramWithOrWithoutAChecksum) {  // UDP-1
  for (const Bytes& frame :
       {udp_frame(kBound, bytes("text")), without_checksum(udp_frame(kBound, bytes("text")))}) {
    const PlainDatagram datagram = only<PlainDatagram>(frame);
    EXPECT_EQ(datagram.port, kBound);
    EXPECT_EQ(datagram.from, (Endpoint{kThem, 9}));
    EXPECT_TRUE(same(datagram.payload, bytes("text")));
  }
  EXPECT_EQ(receiver.counters().datagrams_received, 2u);
}

TEST_F(IpReceiverTest, DatagramForAClosedPortIsUndeliverable) {  // IC-2
  EXPECT_EQ(only<Undeliverable>(udp_frame(kClosed, bytes("text"))).reason, Unreachable::kPort);
  EXPECT_EQ(receiver.counters().closed_ports, 1u);
}

TEST_F(IpReceiverOfProxy1Test, PlainDatagramsBelongToProxy0) {  // UDP-2
  EXPECT_EQ(only<Misdirected>(udp_frame(kBound, bytes("text"))).proxy, 0u);
  EXPECT_EQ(only<Misdirected>(unreachable(kBound)).proxy, 0u);
}

TEST_F(IpReceiverTest, OtherProtocolIsUndeliverable) {  // IC-2
  EXPECT_EQ(only<Undeliverable>(ip_frame(IpProtocol::kTcp, bytes("text"))).reason, Unreachable::kProtocol);
}

TEST_F(IpReceiverTest, ArpPacketIsHandedUp) {
  Bytes frame(kEthernetHeaderBytes);
  write_ethernet(frame, MacAddress::broadcast(), kTheirMac, EtherType::kArp);
  const ArpPacket request{.sender_mac = kTheirMac, .sender_ip = kThem, .target_ip = kUs};
  frame.resize(kEthernetMinFrameBytes);
  write_arp(MutableBytes(frame).subspan(kEthernetHeaderBytes), request);
  EXPECT_EQ(only<ArpPacket>(frame), request);
  EXPECT_TRUE(is_nothing(first(frame, kEthernetHeaderBytes + kArpBytes - 1)));
  EXPECT_EQ(receiver.counters().bad_frames, 1u);
}

TEST_F(IpReceiverTest, EchoRequestIsHandedUpAndOtherTypesAreIgnored) {  // IC-1
  const EchoRequest echo =
      only<EchoRequest>(ip_frame(IpProtocol::kIcmp, icmp(IcmpType::kEcho, 0, 77, bytes("ping"))));
  EXPECT_EQ(echo.message.rest, 77u);
  EXPECT_EQ(echo.ip.source, kThem);
  EXPECT_TRUE(is_nothing(ip_frame(IpProtocol::kIcmp, icmp(IcmpType::kEchoReply, 0, 0, {}))));
  EXPECT_EQ(receiver.counters().icmp_ignored, 1u);
}

TEST_F(IpReceiverTest, UnreachableReportNamesWhatItIsAbout) {  // IC-3
  const UnreachableReport of_packet = only<UnreachableReport>(unreachable(kBase));
  EXPECT_EQ(of_packet.destination, (Endpoint{kThem, 6000}));
  EXPECT_EQ(of_packet.reason, Unreachable::kTooBig);
  EXPECT_EQ(of_packet.mtu_bytes, 1400u);
  EXPECT_FALSE(of_packet.port.has_value());
  EXPECT_EQ(only<UnreachableReport>(unreachable(kBound)).port, kBound);
  EXPECT_EQ(only<Misdirected>(unreachable(kBase + 1)).proxy, 1u);
}

TEST_F(IpReceiverTest, ForgedUnreachableReportIsIgnored) {  // IC-3
  EXPECT_TRUE(is_nothing(unreachable(kBase, Ipv4Address(10, 0, 0, 9))));
  EXPECT_TRUE(is_nothing(unreachable(kClosed)));
  EXPECT_EQ(receiver.counters().icmp_ignored, 2u);
  EXPECT_TRUE(is_nothing(ip_frame(IpProtocol::kIcmp, icmp(IcmpType::kUnreachable, 1, 0, bytes("short")))));
  EXPECT_EQ(receiver.counters().bad_icmp, 1u);
}

TEST_F(IpReceiverTest, FragmentsAreOnePacketWhenTheLastArrives) {  // IP-2
  Prng prng(1);
  const Bytes payload = random_bytes(prng, 3000);
  const Bytes datagram = udp(kBase, payload);
  const auto part = [&](std::size_t from, std::size_t to) {
    return ip_frame(
        IpProtocol::kUdp,
        Bytes(datagram.begin() + static_cast<long>(from), datagram.begin() + static_cast<long>(to)),
        {.dont_fragment = false,
         .more_fragments = to < datagram.size(),
         .identification = 5,
         .fragment_offset_bytes = static_cast<std::uint16_t>(from)});
  };
  EXPECT_TRUE(is_nothing(part(1480, datagram.size())));
  EXPECT_EQ(receiver.next_deadline(), now + 1_s);
  const IpArrival arrival = receive(part(0, 1480));
  EXPECT_TRUE(arrival.reassembled);
  ASSERT_TRUE(std::holds_alternative<ProxyPacket>(arrival.what));
  EXPECT_TRUE(same(std::get<ProxyPacket>(arrival.what).payload, payload));
  EXPECT_EQ(receiver.counters().fragments_received, 2u);
  EXPECT_EQ(receiver.counters().packets_reassembled, 1u);
}

TEST_F(IpReceiverTest, FragmentForAnotherHostTakesNoMemory) {  // IP-1
  const Bytes frame =
      ip_frame(IpProtocol::kUdp, Bytes(8),
               {.destination = Ipv4Address(10, 0, 0, 3), .dont_fragment = false, .more_fragments = true});
  EXPECT_TRUE(is_nothing(frame));
  EXPECT_EQ(receiver.counters().not_for_us, 1u);
  EXPECT_EQ(receiver.reassembly().incomplete(), 0u);
}

TEST_F(IpReceiverTest, BroadcastsAndMartiansAreDropped) {  // IP-1
  Bytes to_all = udp_frame(kBound, bytes("text"));
  MacAddress::broadcast().store(to_all.data());
  EXPECT_TRUE(is_nothing(to_all));
  EXPECT_TRUE(
      is_nothing(ip_frame(IpProtocol::kUdp, udp(kBound, {}), {.destination = Ipv4Address(10, 0, 0, 255)})));
  EXPECT_EQ(receiver.counters().broadcasts, 2u);
  links[0].address = kThem;
  EXPECT_TRUE(is_nothing(ip_frame(IpProtocol::kUdp, udp(kBound, {}), {.destination = kThem})));
  EXPECT_EQ(receiver.counters().martians, 1u) << "from its own address";
}

}  // namespace
}  // namespace braid::stack
