// The short cuts for a flow's packets say what the general writers and parsers say.
#include "stack/wire/flow.h"

#include <gtest/gtest.h>

#include <string>

#include "base/prng.h"
#include "wire_bytes.h"

namespace braid::stack {
namespace {

constexpr MacAddress kUs(2, 0, 0, 0, 0, 1), kThem(2, 0, 0, 0, 0, 2);
constexpr Ipv4Address kOurAddress(10, 0, 0, 1), kTheirAddress(10, 0, 0, 2);
constexpr UdpFields kUdp{.source = kTheirAddress,
                         .destination = kOurAddress,
                         .source_port = 7701,
                         .destination_port = 7700,
                         .payload_bytes = 0};

Bytes by_the_general_writers(const Bytes& payload) {
  Bytes f(kFlowHeaderBytes);
  write_ethernet(f, kUs, kThem, EtherType::kIpv4);
  write_ipv4(MutableBytes(f).subspan(14), {.source = kTheirAddress,
                                           .destination = kOurAddress,
                                           .payload_bytes = kUdpHeaderBytes + payload.size()});
  UdpFields udp = kUdp;
  udp.payload_bytes = payload.size();
  write_udp(MutableBytes(f).subspan(34), udp, checksum_add(0, payload));
  f.insert(f.end(), payload.begin(), payload.end());
  return f;
}

TEST(Flow, WritesWhatTheGeneralWritersWrite) {
  const FlowHeader header(kUs, kThem, kUdp);
  EXPECT_EQ(header.to(), kUs);
  Prng prng(1);
  for (std::size_t bytes = 0; bytes < 2000; bytes += 1 + prng.below(20)) {
    const Bytes payload = random_bytes(prng, bytes);
    Bytes f(kFlowHeaderBytes);
    header.write(f.data(), bytes, checksum_add(0, payload));
    f.insert(f.end(), payload.begin(), payload.end());
    ASSERT_EQ(f, by_the_general_writers(payload)) << bytes;
  }
}

TEST(Flow, ZeroChecksumIsWrittenAsAllOnes) {  // UDP-1
  const FlowHeader header(kUs, kThem, kUdp);
  int ones = 0;
  for (unsigned word = 0; word < 0x10000; ++word) {
    Bytes payload(2);
    store_be(payload.data(), static_cast<std::uint16_t>(word));
    Bytes f(kFlowHeaderBytes);
    header.write(f.data(), 2, checksum_add(0, payload));
    const auto field = load<std::uint16_t>(f.data() + 40);
    ASSERT_NE(field, 0) << word;
    ones += field == 0xffff ? 1 : 0;
  }
  EXPECT_GE(ones, 1);
}

// The filter accepts only packets that the general parsers accept, with the same payload.
TEST(Flow, AcceptsOnlyWhatTheGeneralParsersAccept) {  // SC-9, IP-1
  const FlowFilter filter(kUs, kOurAddress, 7700);
  const GuardedPage page;
  Prng prng(42);
  int taken = 0, left = 0;
  for (int i = 0; i < 50'000; ++i) {
    Bytes f = by_the_general_writers(random_bytes(prng, prng.below(100)));
    const std::size_t changes = prng.below(3);
    for (std::size_t c = 0; c < changes; ++c)
      f = flipped(f, prng.below(8 * std::min<std::size_t>(f.size(), 46)));
    if (prng.chance(0.2)) f = first(f, prng.below(f.size() + 1));
    if (prng.chance(0.2)) f.resize(f.size() + prng.below(20));  // Ethernet's padding
    if (prng.chance(0.5) && f.size() >= 34) {                   // a header that is right again
      store(f.data() + 24, std::uint16_t{0});
      store(f.data() + 24, checksum_field(checksum_add(0, ByteView(f).subspan(14, 20))));
    }
    const ByteView held = page.hold(f);
    Ipv4Address source;
    const ByteView payload = filter.match(held, source);

    EthernetFrame ethernet;
    Ipv4Packet ip;
    UdpDatagram udp;
    const bool general = parse_ethernet(held, ethernet) == EthernetParse::kOk &&
                         ethernet.destination == kUs && ethernet.type == EtherType::kIpv4 &&
                         parse_ipv4(ethernet.payload, ip) == Ipv4Parse::kOk &&
                         ip.protocol == IpProtocol::kUdp && ip.destination == kOurAddress &&
                         parse_udp(ip.payload, ip.source, ip.destination, udp) == UdpParse::kOk &&
                         udp.has_checksum && udp.destination_port == 7700;
    if (payload.data() != nullptr) {
      ASSERT_TRUE(general) << "round " << i;
      ASSERT_EQ(payload.data(), udp.payload.data());
      ASSERT_EQ(payload.size(), udp.payload.size());
      ASSERT_EQ(source, ip.source);
      ++taken;
    } else {
      left += general ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 10'000);
  EXPECT_LT(left, 500) << "only what is uncommon goes the long way";
}

}  // namespace
}  // namespace braid::stack
