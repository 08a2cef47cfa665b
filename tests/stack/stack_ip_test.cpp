// Whole stacks as hosts of an IP network: what is longer than the MTU, pings, closed ports, plain datagrams,
// gateways and several interfaces.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/stack.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"
#include "two_stacks.h"

namespace braid::stack {
namespace {

using What = Stack::Received::What;

constexpr std::size_t kIp = kEthernetHeaderBytes;
constexpr std::uint16_t kPort = 5000;
constexpr std::uint16_t kTheirPort = 6000;

Ipv4Packet ip_in(const Bytes& frame) {
  Ipv4Packet ip;
  const Ipv4Parse parsed = parse_ipv4(ByteView(frame).subspan(kIp), ip);
  EXPECT_TRUE(parsed == Ipv4Parse::kOk || parsed == Ipv4Parse::kFragment);
  return ip;
}
bool is_ip(const Bytes& frame) {
  return load_be<std::uint16_t>(frame.data() + 12) == 0x0800;
}

// A host of the same network that is none of ours: it writes packets by hand, and puts together what it gets.
struct Host {
  explicit Host(const StackConfig& config = stack_config(0, 2)) : us(config, now) { drain(); }

  Bytes frame(IpProtocol protocol, const Bytes& payload, Ipv4Fields fields = {}) const {
    Bytes f(kIp + kIpv4HeaderBytes);
    write_ethernet(f, mac_of(0), mac_of(1), EtherType::kIpv4);
    fields.source = ip_of(1);
    fields.destination = ip_of(0);
    fields.protocol = protocol;
    fields.payload_bytes = payload.size();
    write_ipv4(MutableBytes(f).subspan(kIp), fields);
    f.insert(f.end(), payload.begin(), payload.end());
    return f;
  }
  static Bytes icmp(IcmpType type, std::uint8_t code, std::uint32_t rest, const Bytes& body) {
    Bytes m(kIcmpHeaderBytes);
    write_icmp(m, type, code, rest, checksum_add(0, body));
    m.insert(m.end(), body.begin(), body.end());
    return m;
  }
  static Bytes udp(std::uint16_t from, std::uint16_t to, const Bytes& payload) {
    Bytes d(kUdpHeaderBytes);
    write_udp(d,
              {.source = ip_of(1),
               .destination = ip_of(0),
               .source_port = from,
               .destination_port = to,
               .payload_bytes = payload.size()},
              checksum_add(0, payload));
    d.insert(d.end(), payload.begin(), payload.end());
    return d;
  }
  // In fragments of an MTU of 1500.
  std::vector<Bytes> fragments(IpProtocol protocol, const Bytes& payload, std::uint16_t id = 77) const {
    std::vector<Bytes> out;
    for (std::size_t from = 0; from < payload.size(); from += 1480) {
      const std::size_t to = std::min(from + 1480, payload.size());
      out.push_back(frame(
          protocol, Bytes(payload.begin() + static_cast<long>(from), payload.begin() + static_cast<long>(to)),
          {.dont_fragment = false,
           .more_fragments = to < payload.size(),
           .identification = id,
           .fragment_offset_bytes = static_cast<std::uint16_t>(from)}));
    }
    return out;
  }
  // All packets that the stack sends, reassembled, without its handshakes.
  std::vector<Ipv4Packet> drain() {
    std::vector<Ipv4Packet> out;
    for (;;) {
      Bytes room(us.stack->frame_bytes());
      const std::size_t length = us.stack->poll_transmit(now, kWire, room);
      if (length == 0) break;
      EXPECT_LE(length, 1514u);
      room.resize(length);
      if (!is_ip(room)) continue;
      frames.push_back(room);
      Ipv4Packet ip = ip_in(frames.back());
      if (ip.is_fragment()) {
        Ipv4Packet whole;
        if (reassembly.add(now, ip, whole) != FragmentFate::kComplete) continue;
        wholes.emplace_back(whole.payload.begin(), whole.payload.end());
        whole.payload = wholes.back();
        ip = whole;
      }
      const bool handshake =
          ip.protocol == IpProtocol::kUdp && load_be<std::uint16_t>(ip.payload.data() + 2) == 7700;
      if (!handshake) out.push_back(ip);
    }
    return out;
  }

  Instant now = Instant::from_ns(1'000'000'000);
  TestStack us;
  Reassembly reassembly{ReassemblyConfig{}};
  std::deque<Bytes> frames;  // everything that left
  std::deque<Bytes> wholes;
};

// ---------------------------------------------------------------- fragmentation

TEST(StackFragments, WithFragmentationByIpAPieceTravelsAsOnePacket) {  // IP-3
  Wire wire;
  StackConfig config[2] = {stack_config(0, 2), stack_config(1, 2)};
  for (StackConfig& c : config) c.fragmentation = Fragmentation::kIp;
  TestStack& a = wire.add(config[0]);
  TestStack& b = wire.add(config[1]);
  wire.run_for(10_ms);
  wire.left.clear();
  const auto& m = a.send(ClusterId(1), 11'700, 1);
  wire.run_for(1_ms);
  EXPECT_TRUE(m.finished);
  EXPECT_EQ(b.delivered, std::vector<Bytes>{m.content}) << "in one record";
  const StackStats& sent = a.stack->stats();
  EXPECT_EQ(sent.packets_fragmented, 1u);
  EXPECT_EQ(sent.fragments_sent, 8u);
  EXPECT_EQ(b.stack->stats().fragments_received, 8u);
  EXPECT_EQ(b.stack->stats().packets_reassembled, 1u);
  std::set<std::uint16_t> identifications;
  for (const Wire::Frame& f : wire.left) {
    EXPECT_LE(f.bytes.size(), 1514u);
    if (ip_in(f.bytes).is_fragment()) identifications.insert(ip_in(f.bytes).identification);
  }
  EXPECT_EQ(identifications.size(), 1u);
}

TEST(StackFragments, PacketHasAtMostEightFragments) {  // IP-3
  for (const std::uint32_t mtu : {576u, 1500u, 9000u}) {
    SCOPED_TRACE(mtu);
    Wire wire;
    StackConfig config[2] = {stack_config(0, 2), stack_config(1, 2)};
    for (StackConfig& c : config) {
      c.fragmentation = Fragmentation::kIp;
      c.mtu_bytes = mtu;
    }
    TestStack& a = wire.add(config[0]);
    wire.add(config[1]);
    wire.run_for(10_ms);
    wire.left.clear();
    const auto& m = a.send(ClusterId(1), 32768, 1);
    wire.run_for(20_ms);
    EXPECT_TRUE(m.finished);
    std::map<std::uint16_t, unsigned> fragments;
    for (const Wire::Frame& f : wire.left)
      if (ip_in(f.bytes).is_fragment()) ++fragments[ip_in(f.bytes).identification];
    unsigned most = 0;
    for (const auto& [identification, count] : fragments) most = std::max(most, count);
    EXPECT_EQ(most, mtu == 9000 ? 4u : kMaxFragments) << "32,768 bytes are four fragments of 8,976";
  }
}

// Packets of sixty fragments would never arrive.
TEST(StackFragments, MessagesArriveThoughOneFrameInTenIsLost) {  // IP-3
  Prng prng(1);
  Wire wire;
  StackConfig config[2] = {stack_config(0, 2), stack_config(1, 2)};
  for (StackConfig& c : config) {
    c.fragmentation = Fragmentation::kIp;
    c.mtu_bytes = 576;
  }
  TestStack& a = wire.add(config[0]);
  wire.add(config[1]);
  wire.change = [&](const Bytes& f) {
    return prng.chance(0.9) ? std::vector<Bytes>{f} : std::vector<Bytes>();
  };
  for (std::uint64_t i = 0; i < 20; ++i) a.send(ClusterId(1), 32768, i);
  wire.run_for(20_s);
  for (const auto& m : a.sent) EXPECT_TRUE(m->finished);
}

TEST(StackFragments, MessagesArriveOnceThoughFragmentsAreLostDuplicatedAndReordered) {  // IP-2, IP-3
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Wire wire;
    StackConfig config[2] = {stack_config(0, 2), stack_config(1, 2)};
    for (StackConfig& c : config) {
      c.fragmentation = Fragmentation::kIp;
      c.mtu_bytes = 4500;  // the longest piece has eight fragments
    }
    TestStack& a = wire.add(config[0]);
    TestStack& b = wire.add(config[1]);
    std::vector<Bytes> held;
    wire.change = [&](const Bytes& f) {
      std::vector<Bytes> out;
      if (prng.chance(0.99)) out.push_back(f);
      if (prng.chance(0.05)) out.push_back(f);
      if (prng.chance(0.05) && !out.empty()) {
        held.push_back(out.back());
        out.pop_back();
      } else if (!held.empty() && prng.chance(0.5)) {
        out.push_back(held.back());
        held.pop_back();
      }
      return out;
    };
    std::vector<Bytes> expected;
    for (std::uint64_t i = 0; i < 60; ++i) {
      expected.push_back(
          a.send(ClusterId(1), static_cast<std::uint32_t>(prng.below(32769)), seed * 1000 + i).content);
      if (prng.chance(0.2)) wire.run_for(200_us);
    }
    wire.run_for(5_s);
    for (const auto& m : a.sent) EXPECT_TRUE(m->finished);
    std::sort(expected.begin(), expected.end());
    std::sort(b.delivered.begin(), b.delivered.end());
    EXPECT_EQ(b.delivered, expected);
    EXPECT_GT(b.stack->stats().packets_reassembled, 20u);
    EXPECT_LE(b.stack->reassembly().incomplete(), b.stack->config().reassembly.packets);
  }
}

TEST(StackFragments, FragmentsAreReceivedByAStackThatSendsNone) {  // IP-2
  Wire wire;
  StackConfig whole = stack_config(0, 2);
  whole.fragmentation = Fragmentation::kIp;
  TestStack& a = wire.add(whole);
  TestStack& b = wire.add(stack_config(1, 2));
  wire.run_for(10_ms);
  const auto& m = a.send(ClusterId(1), 10000, 1);
  wire.run_for(1_ms);
  EXPECT_TRUE(m.finished);
  EXPECT_EQ(b.delivered.size(), 1u);
}

TEST(StackFragments, FragmentsForAnotherProxyReachItWhole) {  // IP-2
  Host host(stack_config(0, 2, false, 3));
  StackConfig other = stack_config(0, 2, false, 3);
  other.local.proxy = ProxyId(2);
  TestStack second(other, host.now);
  Prng prng(1);
  const Bytes datagram = Host::udp(7701, 7702, random_bytes(prng, 5000));
  const std::vector<Bytes> fragments = host.fragments(IpProtocol::kUdp, datagram);
  std::vector<Bytes> handed_over;
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    const Stack::Received r = host.us.stack->receive(host.now, kWire, fragments[i]);
    if (i + 1 < fragments.size()) {
      ASSERT_EQ(r.what, What::kNothing);
      continue;
    }
    ASSERT_EQ(r.what, What::kMisdirected);
    EXPECT_EQ(r.proxy, 2u);
    host.us.stack->for_each_frame(kWire, r, fragments[i], [&](ByteView f) {
      EXPECT_LE(f.size(), 1514u);
      handed_over.emplace_back(f.begin(), f.end());
    });
  }
  ASSERT_EQ(handed_over.size(), 4u);
  for (const Bytes& f : handed_over) (void)second.receive(host.now, f);
  EXPECT_EQ(second.stack->stats().packets_reassembled, 1u);
  EXPECT_EQ(second.stack->stats().bad_packets + second.stack->stats().other_versions, 1u)
      << "it looked inside, and found no packet of ours";
  EXPECT_EQ(second.stack->stats().bad_udp, 0u) << "every byte is there";
}

TEST(StackFragments, SenderIsNotifiedOfAReassemblyTimeout) {  // IC-4
  Host host;
  Prng prng(1);
  const Bytes datagram = Host::udp(kTheirPort, kPort, random_bytes(prng, 3000));
  host.us.receive(host.now, host.fragments(IpProtocol::kUdp, datagram)[0]);
  host.us.receive(host.now, host.fragments(IpProtocol::kUdp, datagram, 78)[1]);
  EXPECT_TRUE(host.drain().empty());
  host.now = host.now + 1_s;
  EXPECT_TRUE(host.us.stack->wants_to_transmit(host.now));
  const std::vector<Ipv4Packet> out = host.drain();
  ASSERT_EQ(out.size(), 1u) << "not about the one whose first fragment never came";
  IcmpMessage m;
  ASSERT_EQ(parse_icmp(out[0].payload, m), IcmpParse::kOk);
  EXPECT_EQ(m.type, IcmpType::kTimeExceeded);
  EXPECT_EQ(m.code, kReassemblyTimeExceeded);
  IcmpQuote q;
  ASSERT_TRUE(parse_icmp_quote(m.body, q));
  EXPECT_EQ(q.destination_port, kPort);
  EXPECT_EQ(host.us.stack->reassembly().stats().timeouts, 2u);
}

TEST(StackFragments, ProxiesOfANodeUseDistinctIdentifications) {  // IP-4
  constexpr std::uint16_t kProxies = 3;
  std::set<std::uint16_t> seen;
  for (std::uint8_t proxy = 0; proxy < kProxies; ++proxy) {
    StackConfig c = stack_config(0, 2, false, kProxies);
    c.local.proxy = ProxyId(proxy);
    c.seed = 5u + proxy;
    Host host(c);
    for (int i = 0; i < 200; ++i) {
      host.us.receive(host.now, host.frame(IpProtocol::kIcmp, Host::icmp(IcmpType::kEcho, 0, 1, {})));
      for (const Ipv4Packet& p : host.drain()) EXPECT_TRUE(seen.insert(p.identification).second);
    }
  }
  EXPECT_EQ(seen.size(), 600u);
}

// ---------------------------------------------------------------- ICMP

TEST(StackIcmp, PingOfEveryLengthIsAnswered) {  // IC-1
  Host host;
  Prng prng(7);
  for (const std::size_t bytes : {0u, 1u, 56u, 1471u, 1472u, 1473u, 8000u, 65507u}) {
    SCOPED_TRACE(bytes);
    const Bytes body = random_bytes(prng, bytes);
    for (const Bytes& f : host.fragments(IpProtocol::kIcmp, Host::icmp(IcmpType::kEcho, 0, 0xabcd0001, body),
                                         static_cast<std::uint16_t>(bytes)))
      host.us.receive(host.now, f);
    const std::vector<Ipv4Packet> out = host.drain();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].source, ip_of(0));
    EXPECT_EQ(out[0].destination, ip_of(1));
    EXPECT_EQ(out[0].protocol, IpProtocol::kIcmp);
    IcmpMessage m;
    ASSERT_EQ(parse_icmp(out[0].payload, m), IcmpParse::kOk);
    EXPECT_EQ(m.type, IcmpType::kEchoReply);
    EXPECT_EQ(m.rest, 0xabcd0001u);
    EXPECT_TRUE(same(m.body, body));
  }
  EXPECT_EQ(host.us.stack->stats().echoes_answered, 8u);
}

TEST(StackIcmp, BadIcmpIsCountedAndNotAnswered) {  // IC-1
  Host host;
  const Bytes echo = host.frame(IpProtocol::kIcmp, Host::icmp(IcmpType::kEcho, 0, 1, Bytes(20)));
  host.us.receive(host.now, flipped(echo, 8 * (kIp + 20 + 10)));
  host.us.receive(host.now, host.frame(IpProtocol::kIcmp, Bytes(7)));
  EXPECT_EQ(host.us.stack->stats().bad_icmp, 2u);
  Bytes to_all = echo;
  MacAddress::broadcast().store(to_all.data());
  host.us.receive(host.now, to_all);
  EXPECT_EQ(host.us.stack->stats().broadcasts, 1u);
  for (const IcmpType type : {IcmpType::kEchoReply, IcmpType::kTimeExceeded, IcmpType::kRedirect})
    host.us.receive(host.now, host.frame(IpProtocol::kIcmp, Host::icmp(type, 0, 0, Bytes(40))));
  EXPECT_EQ(host.us.stack->stats().icmp_ignored, 3u);
  EXPECT_TRUE(host.drain().empty());
}

TEST(StackIcmp, FloodOfPingsFillsABoundedQueue) {  // IC-1
  Host host;
  const Bytes echo = host.frame(IpProtocol::kIcmp, Host::icmp(IcmpType::kEcho, 0, 1, Bytes(20)));
  for (int i = 0; i < 100; ++i) host.us.receive(host.now, echo);
  EXPECT_EQ(host.drain().size(), 16u);
  EXPECT_EQ(host.us.stack->stats().outgoing_dropped, 84u);
}

TEST(StackIcmp, DatagramToAClosedPortIsAnsweredWithPortUnreachable) {  // IC-2
  Host host;
  const Bytes datagram = Host::udp(kTheirPort, kPort, Bytes(100));
  host.us.receive(host.now, host.frame(IpProtocol::kUdp, datagram));
  std::vector<Ipv4Packet> out = host.drain();
  ASSERT_EQ(out.size(), 1u);
  IcmpMessage m;
  ASSERT_EQ(parse_icmp(out[0].payload, m), IcmpParse::kOk);
  EXPECT_EQ(m.type, IcmpType::kUnreachable);
  EXPECT_EQ(m.code, static_cast<std::uint8_t>(Unreachable::kPort));
  IcmpQuote q;
  ASSERT_TRUE(parse_icmp_quote(m.body, q));
  EXPECT_EQ(q.source, ip_of(1));
  EXPECT_EQ(q.destination, ip_of(0));
  EXPECT_EQ(q.source_port, kTheirPort);
  EXPECT_EQ(q.destination_port, kPort);
  // An unknown protocol likewise.
  host.us.receive(host.now, host.frame(IpProtocol{99}, Bytes(10)));
  out = host.drain();
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(parse_icmp(out[0].payload, m), IcmpParse::kOk);
  EXPECT_EQ(m.code, static_cast<std::uint8_t>(Unreachable::kProtocol));
}

TEST(StackIcmp, NoIcmpErrorAboutBrokenOrBroadcastPackets) {  // IC-2
  Host host;
  const Bytes good = host.frame(IpProtocol::kUdp, Host::udp(kTheirPort, kPort, Bytes(100)));
  host.us.receive(host.now, flipped(good, 8 * (good.size() - 1)));  // its checksum is wrong
  Bytes to_all = good;
  MacAddress::broadcast().store(to_all.data());
  host.us.receive(host.now, to_all);
  host.us.receive(host.now,
                  host.frame(IpProtocol::kIcmp, Host::icmp(IcmpType::kUnreachable, 3, 0, Bytes(28))));
  EXPECT_TRUE(host.drain().empty());
}

TEST(StackIcmp, IcmpErrorsAreRateLimited) {  // IC-2
  Host host;
  const Bytes f = host.frame(IpProtocol::kUdp, Host::udp(kTheirPort, kPort, {}));
  std::size_t answers = 0;
  const auto write_for = [&](Duration d) {
    answers = 0;
    for (const Instant end = host.now + d; host.now < end; host.now = host.now + 1_ms) {
      host.us.receive(host.now, f);
      answers += host.drain().size();
    }
  };
  write_for(1_s);
  EXPECT_EQ(answers, 119u) << "20 at once and 100 in a second";
  write_for(1_s);
  EXPECT_EQ(answers, 100u);
  EXPECT_EQ(host.us.stack->stats().icmp_errors_withheld, 2000u - 219u);
}

TEST(StackIcmp, UnreachableReportIsKeptAsTheCause) {  // IC-3
  Host host;
  host.now = host.now + 100_ms;
  Bytes hello(host.us.stack->frame_bytes());
  hello.resize(host.us.stack->poll_transmit(host.now, kWire, hello));
  ASSERT_GT(hello.size(), 42u);
  const Bytes quote(hello.begin() + kIp, hello.begin() + kIp + 28);
  const auto tell = [&](Unreachable why, std::uint32_t rest, const Bytes& about) {
    return host.us.receive(
        host.now, host.frame(IpProtocol::kIcmp, Host::icmp(IcmpType::kUnreachable,
                                                           static_cast<std::uint8_t>(why), rest, about)));
  };
  const Stack::Received r = tell(Unreachable::kPort, 0, quote);
  EXPECT_EQ(r.what, What::kUnreachable);
  EXPECT_EQ(r.sub_connection, host.us.stack->sub_connections()[0].get());
  EXPECT_EQ(r.reason, Unreachable::kPort);
  EXPECT_EQ(r.peer, (Endpoint{ip_of(1), 7700}));
  EXPECT_EQ(tell(Unreachable::kTooBig, 1400, quote).what, What::kUnreachable);
  const PathReport& report = host.us.stack->path_report(0);
  EXPECT_EQ(report.unreachables, 2u);
  EXPECT_EQ(report.reason, Unreachable::kTooBig);
  EXPECT_EQ(report.mtu_bytes, 1400u);
  const Bytes steered = with(with(quote, 20, 0xc0), 21, 7);  // from port 49159: one of ours to send from
  EXPECT_EQ(tell(Unreachable::kPort, 0, steered).what, What::kUnreachable);
  EXPECT_EQ(report.unreachables, 3u);
  // About packets that we cannot have sent.
  EXPECT_EQ(tell(Unreachable::kPort, 0, with(quote, 15, 99)).what, What::kNothing) << "from another address";
  EXPECT_EQ(tell(Unreachable::kPort, 0, with(quote, 19, 99)).what, What::kNothing) << "to nobody's address";
  EXPECT_EQ(tell(Unreachable::kPort, 0, with(quote, 22, 1)).what, What::kNothing) << "to nobody's port";
  EXPECT_EQ(tell(Unreachable::kPort, 0, with(quote, 9, 6)).what, What::kNothing) << "by TCP";
  EXPECT_EQ(host.us.stack->stats().icmp_ignored, 4u);
  EXPECT_EQ(tell(Unreachable::kPort, 0, first(quote, 27)).what, What::kNothing);
  EXPECT_EQ(host.us.stack->stats().bad_icmp, 1u);
  EXPECT_EQ(report.unreachables, 3u);
}

// ---------------------------------------------------------------- plain datagrams

TEST(StackDatagrams, OfEveryLengthArriveBothWays) {  // UDP-2
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  TestStack& b = wire.add(stack_config(1, 2, true));
  ASSERT_TRUE(a.stack->bind(kPort));
  ASSERT_TRUE(b.stack->bind(kTheirPort));
  Prng prng(768);
  for (const std::size_t bytes : {0u, 1u, 1471u, 1472u, 1473u, 2960u, 9000u, 65507u}) {
    SCOPED_TRACE(bytes);
    const Bytes there = random_bytes(prng, bytes);
    const Bytes back = random_bytes(prng, bytes);
    EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(1), kTheirPort}, there), Sent::kQueued);
    EXPECT_EQ(b.stack->send_datagram(wire.now, kTheirPort, {ip_of(0), kPort}, back), Sent::kQueued);
    wire.run_for(5_ms);
    ASSERT_EQ(b.datagrams.size(), 1u);
    EXPECT_EQ(b.datagrams[0].from, (Endpoint{ip_of(0), kPort}));
    EXPECT_EQ(b.datagrams[0].port, kTheirPort);
    EXPECT_EQ(b.datagrams[0].content, there);
    ASSERT_EQ(a.datagrams.size(), 1u);
    EXPECT_EQ(a.datagrams[0].content, back);
    a.datagrams.clear();
    b.datagrams.clear();
  }
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(1), kTheirPort}, Bytes(65508)), Sent::kTooLong);
  EXPECT_EQ(a.stack->stats().bad_udp + b.stack->stats().bad_udp, 0u);
}

TEST(StackDatagrams, DatagramsWaitForArpAndAreNotLost) {  // ARP-1
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  for (std::uint16_t i = 0; i < 5; ++i)
    EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(1), kTheirPort}, Bytes(i)), Sent::kQueued);
  wire.run_for(1_s);  // run_for() fails if a deadline is always now
  TestStack& b = wire.add(stack_config(1, 2, true));
  ASSERT_TRUE(b.stack->bind(kTheirPort));
  wire.run_for(1_s);
  ASSERT_EQ(b.datagrams.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(b.datagrams[i].content.size(), i) << "in order";
}

TEST(StackDatagrams, DatagramsAreDroppedWhenArpIsNotAnswered) {  // ARP-1
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(9), kTheirPort}, {}), Sent::kQueued);
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(9), kTheirPort}, {}), Sent::kNoRoom);
  wire.run_for(3_s);
  EXPECT_EQ(a.stack->stats().outgoing_dropped, 16u);
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(9), kTheirPort}, {}), Sent::kQueued);
}

TEST(StackDatagrams, DatagramThatWaitsForArpDoesNotDelayOthers) {  // ARP-1
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2));
  TestStack& b = wire.add(stack_config(1, 2));
  ASSERT_TRUE(b.stack->bind(kTheirPort));
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(9), kTheirPort}, {}), Sent::kQueued);
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(1), kTheirPort}, {}), Sent::kQueued);
  wire.run_for(1_ms);
  EXPECT_EQ(b.datagrams.size(), 1u);
  EXPECT_TRUE(a.stack->all_established());
}

TEST(StackDatagrams, ClosedPortIsReportedToTheSendersPort) {  // IC-2, IC-3
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2));
  wire.add(stack_config(1, 2));
  ASSERT_TRUE(a.stack->bind(kPort));
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(1), kTheirPort}, Bytes(2000)), Sent::kQueued);
  wire.run_for(1_ms);
  ASSERT_EQ(a.unreachables.size(), 1u);
  EXPECT_EQ(a.unreachables[0].peer, (Endpoint{ip_of(1), kTheirPort}));
  EXPECT_EQ(a.unreachables[0].port, kPort);
  EXPECT_EQ(a.unreachables[0].reason, Unreachable::kPort);
  a.stack->unbind(kPort);
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(1), kTheirPort}, {}), Sent::kQueued);
  wire.run_for(1_ms);
  EXPECT_EQ(a.unreachables.size(), 1u) << "nobody there is interested any more";
}

TEST(StackDatagrams, DatagramsWithoutAChecksumAreAcceptedOnPlainPorts) {  // UDP-1
  Host host;
  ASSERT_TRUE(host.us.stack->bind(kPort));
  Bytes datagram = Host::udp(kTheirPort, kPort, Bytes(10));
  store(datagram.data() + 6, std::uint16_t{0});
  EXPECT_EQ(host.us.receive(host.now, host.frame(IpProtocol::kUdp, datagram)).what, What::kDatagram);
  datagram = Host::udp(kTheirPort, 7700, Bytes(60));
  store(datagram.data() + 6, std::uint16_t{0});
  EXPECT_EQ(host.us.receive(host.now, host.frame(IpProtocol::kUdp, datagram)).what, What::kNothing);
  EXPECT_EQ(host.us.stack->stats().bad_udp, 1u);
}

TEST(StackDatagrams, ZeroChecksumIsSentAsAllOnes) {  // UDP-1
  Host host;
  std::set<std::uint16_t> fields;
  for (unsigned word = 0; word < 0x10000; ++word) {
    Bytes payload(2);
    store_be(payload.data(), static_cast<std::uint16_t>(word));
    ASSERT_EQ(host.us.stack->send_datagram(host.now, kPort, {ip_of(1), kTheirPort}, payload), Sent::kQueued);
    const std::vector<Ipv4Packet> out = host.drain();
    ASSERT_EQ(out.size(), 1u);
    UdpDatagram udp;
    ASSERT_EQ(parse_udp(out[0].payload, ip_of(0), ip_of(1), udp), UdpParse::kOk);
    ASSERT_TRUE(udp.has_checksum);
    fields.insert(load_be<std::uint16_t>(out[0].payload.data() + 6));
    host.frames.clear();
  }
  EXPECT_EQ(fields.size(), 65535u) << "every value but zero";
}

TEST(StackDatagrams, PortsOfProxiesAndTakenOnesCannotBeBound) {  // UDP-2
  Host host(stack_config(0, 2, false, 3));
  Stack& stack = *host.us.stack;
  for (const unsigned port : {0u, 7700u, 7701u, 7702u, 49152u, 49152u + 3 * 512 - 1})
    EXPECT_FALSE(stack.bind(static_cast<std::uint16_t>(port))) << port;
  EXPECT_TRUE(stack.bind(49152 + 3 * 512)) << "there is no fourth proxy";
  EXPECT_TRUE(stack.bind(7703));
  EXPECT_FALSE(stack.bind(7703));
  stack.unbind(7703);
  EXPECT_TRUE(stack.bind(7703));
}

TEST(StackDatagrams, DatagramsArriveAtProxyZeroFromAnyQueue) {  // UDP-2
  StackConfig c = stack_config(0, 2, false, 2);
  c.local.proxy = ProxyId(1);
  Host host(c);
  const Bytes f = host.frame(IpProtocol::kUdp, Host::udp(kTheirPort, kPort, Bytes(10)));
  const Stack::Received r = host.us.stack->receive(host.now, kWire, f);
  EXPECT_EQ(r.what, What::kMisdirected);
  EXPECT_EQ(r.proxy, kDatagramProxy);
  EXPECT_TRUE(host.drain().empty()) << "it cannot know whether the port is closed";
}

// ---------------------------------------------------------------- interfaces

TEST(StackInterfaces, EachLinkUsesItsOwnAddressAndStation) {  // IP-5
  const Ipv4Address left(10, 1, 0, 1), right(10, 2, 0, 1);
  const MacAddress left_mac(2, 0, 0, 0, 1, 0), right_mac(2, 0, 0, 0, 2, 0);
  StackConfig c;
  c.local = {ClusterId(0), ProxyId(0)};
  c.interfaces = {{left, left_mac, 24}, {right, right_mac, 24}};
  c.remotes = {{{ClusterId(1), ProxyId(0)}, Ipv4Address(10, 1, 0, 2), 7700, LinkId(0), mac_of(1)},
               {{ClusterId(1), ProxyId(1)}, Ipv4Address(10, 2, 0, 2), 7701, LinkId(1), mac_of(2)}};
  const Instant now = Instant::from_ns(1'000'000'000);
  Stack stack(c, now);
  Bytes room(stack.frame_bytes());
  ASSERT_GT(stack.poll_transmit(now, LinkId(0), room), 0u);
  EXPECT_EQ(ip_in(room).source, left);
  EXPECT_EQ(ip_in(room).destination, Ipv4Address(10, 1, 0, 2));
  EXPECT_EQ(MacAddress::load(room.data() + 6), left_mac);
  ASSERT_GT(stack.poll_transmit(now, LinkId(1), room), 0u);
  EXPECT_EQ(ip_in(room).source, right);
  EXPECT_EQ(MacAddress::load(room.data() + 6), right_mac);
  EXPECT_EQ(MacAddress::load(room.data()), mac_of(2));
  // Each receives only its own packets: an address belongs to its link.
  const auto ping = [&](LinkId link, const MacAddress& mac, Ipv4Address to) {
    const Bytes echo = Host::icmp(IcmpType::kEcho, 0, 1, Bytes(8));
    Bytes f(kIp + kIpv4HeaderBytes);
    write_ethernet(f, mac, mac_of(3), EtherType::kIpv4);
    write_ipv4(MutableBytes(f).subspan(kIp), {.source = Ipv4Address(10, 1, 0, 2),
                                              .destination = to,
                                              .protocol = IpProtocol::kIcmp,
                                              .payload_bytes = echo.size()});
    f.insert(f.end(), echo.begin(), echo.end());
    (void)stack.receive(now, link, f);
  };
  ping(LinkId(0), left_mac, left);
  EXPECT_EQ(stack.stats().echoes_answered, 1u);
  ping(LinkId(0), right_mac, left);
  EXPECT_EQ(stack.stats().bad_frames, 1u);
  ping(LinkId(0), left_mac, right);
  EXPECT_EQ(stack.stats().not_for_us, 1u);
  ping(LinkId(0), left_mac, Ipv4Address(10, 1, 0, 255));
  EXPECT_EQ(stack.stats().broadcasts, 1u);
  EXPECT_EQ(stack.stats().echoes_answered, 1u);
}

TEST(StackInterfaces, PacketsBeyondThePrefixGoToTheGateway) {  // ARP-2
  const Ipv4Address own(192, 168, 3, 7), gateway(192, 168, 3, 1), far(10, 9, 8, 7);
  StackConfig c = stack_config(0, 1);
  c.interfaces = {{own, mac_of(0), 24, gateway}};
  c.remotes = {{{ClusterId(1), ProxyId(0)}, far, 7700, kWire, std::nullopt}};
  const Instant now = Instant::from_ns(1'000'000'000);
  Stack stack(c, now);
  Bytes room(stack.frame_bytes());
  std::vector<ArpPacket> asked;
  while (stack.poll_transmit(now, kWire, room) > 0) {
    ArpPacket arp;
    ASSERT_EQ(parse_arp(ByteView(room).subspan(kIp), arp), ArpParse::kOk);
    asked.push_back(arp);
  }
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0].is_gratuitous());
  EXPECT_EQ(asked[1].target_ip, gateway);
  Bytes answer(kEthernetMinFrameBytes);
  write_ethernet(answer, mac_of(0), mac_of(9), EtherType::kArp);
  write_arp(MutableBytes(answer).subspan(kIp), {ArpOperation::kReply, mac_of(9), gateway, mac_of(0), own});
  EXPECT_EQ(stack.receive(now, kWire, answer).what, What::kForAllProxies);
  ASSERT_GT(stack.poll_transmit(now, kWire, room), 0u);
  EXPECT_EQ(MacAddress::load(room.data()), mac_of(9));
  EXPECT_EQ(ip_in(room).destination, far);
  // A datagram to a neighbour goes straight there, and one to the world through the gateway.
  EXPECT_EQ(stack.send_datagram(now, kPort, {Ipv4Address(8, 8, 8, 8), 53}, {}), Sent::kQueued);
  ASSERT_GT(stack.poll_transmit(now, kWire, room), 0u);
  EXPECT_EQ(MacAddress::load(room.data()), mac_of(9));
  EXPECT_EQ(stack.send_datagram(now, kPort, {Ipv4Address(192, 168, 3, 2), 53}, {}), Sent::kQueued);
  ASSERT_GT(stack.poll_transmit(now, kWire, room), 0u);
  ArpPacket arp;
  ASSERT_EQ(parse_arp(ByteView(room).subspan(kIp), arp), ArpParse::kOk);
  EXPECT_EQ(arp.target_ip, Ipv4Address(192, 168, 3, 2));
}

TEST(StackInterfaces, WithoutAGatewayThereIsNoWayOut) {  // ARP-2
  StackConfig c = stack_config(0, 1);
  c.interfaces = {{Ipv4Address(192, 168, 3, 7), mac_of(0), 24}};
  Stack stack(c, Instant());
  EXPECT_EQ(stack.send_datagram(Instant(), kPort, {Ipv4Address(8, 8, 8, 8), 53}, {}), Sent::kNoWay);
  EXPECT_EQ(stack.send_datagram(Instant(), kPort, {Ipv4Address(224, 0, 0, 1), 53}, {}), Sent::kNoWay);
  EXPECT_EQ(stack.send_datagram(Instant(), kPort, {Ipv4Address(), 53}, {}), Sent::kNoWay);
}

TEST(StackInterfaces, AnnouncementOfAPeerThatAnswersMovesNothing) {  // ARP-4
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  wire.add(stack_config(1, 2, true));
  wire.run_for(20_ms);
  ASSERT_TRUE(a.stack->all_established());
  Bytes f(kEthernetMinFrameBytes);
  write_ethernet(f, MacAddress::broadcast(), mac_of(7), EtherType::kArp);
  write_arp(MutableBytes(f).subspan(kIp),
            {ArpOperation::kRequest, mac_of(7), ip_of(1), MacAddress(), ip_of(1)});
  EXPECT_EQ(a.receive(wire.now, f).what, What::kForAllProxies);
  wire.run_for(700_ms);
  EXPECT_EQ(a.stack->neighbours().stats().address_conflicts, 1u);
  EXPECT_EQ(a.stack->neighbours().stats().moved, 0u);
  EXPECT_EQ(a.stack->take_address_conflict(), (AddressConflict{ip_of(1), mac_of(1), mac_of(7), false}));
  EXPECT_EQ(a.stack->send_datagram(wire.now, kPort, {ip_of(1), kTheirPort}, {}), Sent::kQueued);
  Bytes room(a.stack->frame_bytes());
  ASSERT_GT(a.stack->poll_transmit(wire.now, kWire, room), 0u);
  EXPECT_EQ(MacAddress::load(room.data()), mac_of(1));
}

TEST(StackInterfaces, SilentPeerIsLookedForByBroadcast) {  // ARP-5
  Wire wire;
  TestStack& a = wire.add(stack_config(0, 2, true));
  wire.add(stack_config(1, 2, true));
  wire.run_for(20_ms);
  ASSERT_TRUE(a.stack->all_established());
  const auto asks = [&](Instant now) {
    Bytes room(a.stack->frame_bytes());
    ArpPacket arp;
    bool found = false;
    for (int frames = 0; frames < 20 && a.stack->poll_transmit(now, kWire, room) > 0; ++frames)
      found = found ||
              (MacAddress::load(room.data()) == MacAddress::broadcast() &&
               parse_arp(ByteView(room).subspan(kIp), arp) == ArpParse::kOk && arp.target_ip == ip_of(1));
    return found;
  };
  const Duration path_death = stack_config(0, 2, true).sub_connection.path_death;
  EXPECT_FALSE(asks(wire.now + path_death / 2));
  EXPECT_TRUE(asks(wire.now + path_death));
}

}  // namespace
}  // namespace braid::stack
