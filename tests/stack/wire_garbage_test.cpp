// For any input a parser reads only inside its view, and the views that it returns lie inside it. An input ends
// at a page without access, so one byte too many is a crash.
#include <gtest/gtest.h>

#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"
#include "wire_bytes.h"

namespace braid::stack {
namespace {

constexpr std::uint64_t kSeed = 20'000;
constexpr int kRounds = 40'000;

// How far into a frame the parsers came.
struct Depth {
  int ipv4 = 0;
  int fragment = 0;
  int udp = 0;
  int arp = 0;
};

void read_udp(const Ipv4Packet& ip, Depth& depth) {
  for (const ChecksumBy by : {ChecksumBy::kSoftware, ChecksumBy::kHardware}) {
    UdpDatagram datagram;
    if (parse_udp(ip.payload, ip.source, ip.destination, datagram, by) != UdpParse::kOk) continue;
    ++depth.udp;
    ASSERT_TRUE(lies_within(datagram.payload, ip.payload));
  }
}

void read_ipv4(ByteView bytes, Depth& depth) {
  for (const ChecksumBy by : {ChecksumBy::kSoftware, ChecksumBy::kHardware}) {
    Ipv4Packet packet;
    const Ipv4Parse result = parse_ipv4(bytes, packet, by);
    if (result != Ipv4Parse::kOk && result != Ipv4Parse::kFragment) continue;
    ++(result == Ipv4Parse::kOk ? depth.ipv4 : depth.fragment);
    ASSERT_EQ(packet.is_fragment(), result == Ipv4Parse::kFragment);
    ASSERT_TRUE(lies_within(packet.header, bytes));
    ASSERT_TRUE(lies_within(packet.payload, bytes));
    read_udp(packet, depth);
  }
}

void read_frame(ByteView bytes, Depth& depth) {
  EthernetFrame frame;
  if (parse_ethernet(bytes, frame) != EthernetParse::kOk) return;
  ASSERT_TRUE(lies_within(frame.payload, bytes));
  read_ipv4(frame.payload, depth);
  ArpPacket arp;
  if (parse_arp(frame.payload, arp) == ArpParse::kOk) ++depth.arp;
}

Bytes udp_frame(Prng& prng) {
  const Bytes payload = random_bytes(prng, prng.below(200));
  constexpr std::size_t kUdpAt = kEthernetHeaderBytes + kIpv4HeaderBytes;
  constexpr std::size_t kPayloadAt = kUdpAt + kUdpHeaderBytes;
  constexpr Ipv4Address kFrom(10, 0, 0, 1), kTo(10, 0, 0, 2);
  Bytes frame(kPayloadAt + payload.size());
  const MutableBytes at(frame);
  write_ethernet(at, MacAddress(2, 0, 0, 0, 0, 2), MacAddress(2, 0, 0, 0, 0, 1), EtherType::kIpv4);
  write_ipv4(at.subspan(kEthernetHeaderBytes),
             {.source = kFrom, .destination = kTo, .payload_bytes = kUdpHeaderBytes + payload.size()});
  const std::uint64_t sum = copy_and_sum(frame.data() + kPayloadAt, payload.data(), payload.size());
  write_udp(at.subspan(kUdpAt), {.source = kFrom, .destination = kTo, .payload_bytes = payload.size()}, sum);
  return frame;
}

Bytes arp_frame() {
  Bytes frame(kEthernetMinFrameBytes);
  write_ethernet(frame, MacAddress::broadcast(), MacAddress(2, 0, 0, 0, 0, 1), EtherType::kArp);
  write_arp(MutableBytes(frame).subspan(kEthernetHeaderBytes), {.sender_mac = MacAddress(2, 0, 0, 0, 0, 1),
                                                                .sender_ip = Ipv4Address(10, 0, 0, 1),
                                                                .target_ip = Ipv4Address(10, 0, 0, 2)});
  return frame;
}

TEST(WireGarbage, RandomBytesAreReadWithinBounds) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  const GuardedPage page;
  Depth depth;
  for (int round = 0; round < kRounds && !testing::Test::HasFatalFailure(); ++round) {
    read_frame(page.hold(random_bytes(prng, prng.below(200))), depth);
  }
}

TEST(WireGarbage, DamagedFramesAreReadWithinBounds) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  const GuardedPage page;
  Depth depth;
  for (int round = 0; round < kRounds && !testing::Test::HasFatalFailure(); ++round) {
    Bytes frame = prng.chance(0.2) ? arp_frame() : udp_frame(prng);
    if (prng.chance(0.3)) frame.resize(prng.below(frame.size() + 1));
    for (std::uint64_t damage = prng.below(4); damage > 0 && !frame.empty(); --damage) {
      frame[prng.below(std::min<std::size_t>(frame.size(), 50))] = static_cast<std::byte>(prng.next());
    }
    read_frame(page.hold(frame), depth);
  }
  // The damage was such that every parser had something to do.
  EXPECT_GT(depth.ipv4, kRounds / 100);
  EXPECT_GT(depth.fragment, kRounds / 1000);
  EXPECT_GT(depth.udp, kRounds / 100);
  EXPECT_GT(depth.arp, kRounds / 100);
}

TEST(WireGarbage, TruncatedFramesAreReadWithinBounds) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  const GuardedPage page;
  for (const Bytes& frame : {udp_frame(prng), arp_frame()}) {
    for (std::size_t n = 0; n <= frame.size() && !testing::Test::HasFatalFailure(); ++n) {
      Depth depth;
      read_frame(page.hold(first(frame, n)), depth);
    }
  }
}

}  // namespace
}  // namespace braid::stack
