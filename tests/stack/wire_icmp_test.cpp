// ICMP messages as bytes: written, read back, and what is refused.
#include "stack/wire/icmp.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "stack/wire/checksum.h"
#include "wire_bytes.h"

namespace braid::stack {
namespace {

TEST(Icmp, AnEchoRequestIsRead) {
  Bytes echo = bytes({8, 0, 0, 0, 0x1f, 0x2e, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8});
  store_be(echo.data() + 2, plain_checksum(echo));
  IcmpMessage m;
  ASSERT_EQ(parse_icmp(echo, m), IcmpParse::kOk);
  EXPECT_EQ(m.type, IcmpType::kEcho);
  EXPECT_EQ(m.code, 0);
  EXPECT_EQ(m.rest, 0x1f2e0001u);
  EXPECT_EQ(m.body.size(), 8u);
  EXPECT_TRUE(lies_within(m.body, echo));
}

TEST(Icmp, WrittenMessagesAreReadBackAtEveryLength) {
  Prng prng(792);
  for (std::size_t n = 0; n < 100; ++n) {
    Bytes bytes(kIcmpHeaderBytes + n);
    const Bytes body = random_bytes(prng, n);
    const std::uint64_t sum = copy_and_sum(bytes.data() + kIcmpHeaderBytes, body.data(), n);
    EXPECT_EQ(write_icmp(bytes, IcmpType::kEchoReply, 3, 0xdeadbeef, sum), kIcmpHeaderBytes);
    IcmpMessage m;
    ASSERT_EQ(parse_icmp(bytes, m), IcmpParse::kOk) << n;
    EXPECT_EQ(m.type, IcmpType::kEchoReply);
    EXPECT_EQ(m.code, 3);
    EXPECT_EQ(m.rest, 0xdeadbeefu);
    EXPECT_EQ(Bytes(m.body.begin(), m.body.end()), body);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit)
      ASSERT_EQ(parse_icmp(flipped(bytes, bit), m), IcmpParse::kBadChecksum) << n << " bit " << bit;
  }
}

TEST(Icmp, ShortMessageIsRefused) {
  for (std::size_t n = 0; n < kIcmpHeaderBytes; ++n) {
    IcmpMessage m;
    EXPECT_EQ(parse_icmp(Bytes(n), m), IcmpParse::kTruncated);
  }
}

// The header of a UDP packet from 10.0.0.1:7700 to 10.0.0.2:9, and its first 8 bytes.
Bytes quoted() {
  Bytes b(kIpv4HeaderBytes + kIcmpQuotedPayloadBytes);
  write_ipv4(b, {.source = Ipv4Address(10, 0, 0, 1),
                 .destination = Ipv4Address(10, 0, 0, 2),
                 .protocol = IpProtocol::kUdp,
                 .payload_bytes = 1000});
  store_be<std::uint16_t>(b.data() + kIpv4HeaderBytes, 7700);
  store_be<std::uint16_t>(b.data() + kIpv4HeaderBytes + 2, 9);
  return b;
}

TEST(Icmp, ErrorQuotesItsPacket) {
  IcmpQuote q;
  ASSERT_TRUE(parse_icmp_quote(quoted(), q));
  EXPECT_EQ(q.source, Ipv4Address(10, 0, 0, 1));
  EXPECT_EQ(q.destination, Ipv4Address(10, 0, 0, 2));
  EXPECT_EQ(q.protocol, IpProtocol::kUdp);
  EXPECT_EQ(q.source_port, 7700);
  EXPECT_EQ(q.destination_port, 9);
  Bytes longer = quoted();
  longer.resize(500);
  EXPECT_TRUE(parse_icmp_quote(longer, q)) << "some quote more";
}

TEST(Icmp, QuoteWithoutPortsIsRefused) {
  IcmpQuote q;
  for (std::size_t n = 0; n < quoted().size(); ++n)
    EXPECT_FALSE(parse_icmp_quote(first(quoted(), n), q)) << n;
  EXPECT_FALSE(parse_icmp_quote(with(quoted(), 0, 0x65), q)) << "another version";
  EXPECT_FALSE(parse_icmp_quote(with(quoted(), 0, 0x44), q)) << "a header of 16 bytes";
  EXPECT_FALSE(parse_icmp_quote(with(quoted(), 0, 0x46), q)) << "options, and then too little";
  EXPECT_FALSE(parse_icmp_quote(with(quoted(), 7, 1), q)) << "a later fragment";
}

TEST(Icmp, NoInputMakesItReadOutOfBounds) {
  const GuardedPage page;
  Prng prng(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes b = prng.chance(0.5) ? random_bytes(prng, prng.below(80)) : quoted();
    if (!b.empty() && prng.chance(0.5)) b[prng.below(b.size())] = static_cast<std::byte>(prng.next());
    b = first(b, prng.below(b.size() + 1));
    const ByteView held = page.hold(b);
    IcmpMessage m;
    if (parse_icmp(held, m) == IcmpParse::kOk) {
      ASSERT_TRUE(lies_within(m.body, held));
    }
    IcmpQuote q;
    (void)parse_icmp_quote(held, q);
  }
}

TEST(Icmp, ErrorMessagesAreRecognized) {
  for (int type = 0; type < 256; ++type)
    EXPECT_EQ(is_error(IcmpType{static_cast<std::uint8_t>(type)}),
              type == 3 || type == 4 || type == 5 || type == 11 || type == 12)
        << type;
}

}  // namespace
}  // namespace braid::stack
