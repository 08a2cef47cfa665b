// UDP datagrams: known ones byte by byte, the rules about the checksum zero, and each way to be wrong.
#include "stack/wire/udp.h"

#include <gtest/gtest.h>

#include "wire_bytes.h"

namespace braid::stack {
namespace {

constexpr Ipv4Address kSource(192, 168, 0, 31);
constexpr Ipv4Address kDestination(192, 168, 0, 30);

// "Hi" from port 20 to port 10, worked through by hand.
const Bytes kHi = bytes({0x00, 0x14, 0x00, 0x0a, 0x00, 0x0a, 0x35, 0xc5, 'H', 'i'});
// And of an odd length.
const Bytes kHiThere = bytes({0x00, 0x14, 0x00, 0x0a, 0x00, 0x0b, 0x14, 0xc3, 'H', 'i', '!'});

UdpParse parsed(const Bytes& wire) {
  UdpDatagram datagram;
  return parse_udp(wire, kSource, kDestination, datagram);
}

Bytes written(const Bytes& payload) {
  Bytes wire(kUdpHeaderBytes + payload.size());
  const std::uint64_t sum = copy_and_sum(wire.data() + kUdpHeaderBytes, payload.data(), payload.size());
  EXPECT_EQ(write_udp(wire,
                      {.source = kSource,
                       .destination = kDestination,
                       .source_port = 20,
                       .destination_port = 10,
                       .payload_bytes = payload.size()},
                      sum),
            kUdpHeaderBytes);
  return wire;
}

TEST(Udp, ReadsAKnownDatagram) {
  UdpDatagram datagram;
  ASSERT_EQ(parse_udp(kHi, kSource, kDestination, datagram), UdpParse::kOk);
  EXPECT_EQ(datagram.source_port, 20);
  EXPECT_EQ(datagram.destination_port, 10);
  EXPECT_TRUE(datagram.has_checksum);
  EXPECT_TRUE(same(datagram.payload, bytes("Hi")));
}

TEST(Udp, WritesTheKnownDatagrams) {
  EXPECT_EQ(written(bytes("Hi")), kHi);
  EXPECT_EQ(written(bytes("Hi!")), kHiThere);
}

TEST(Udp, WritesTheHeaderAndNothingElse) {
  Bytes wire(12, std::byte{0x5a});
  write_udp(wire, {.source = kSource, .destination = kDestination}, 0);
  EXPECT_EQ(wire[kUdpHeaderBytes], std::byte{0x5a});
}

TEST(Udp, ReadsWhatItWritesAtEveryLength) {
  constexpr std::uint64_t kSeed = 768;
  Prng prng(kSeed);
  for (std::size_t n = 0; n <= 300; ++n) {
    const Bytes payload = random_bytes(prng, n);
    const Bytes wire = written(payload);
    UdpDatagram datagram;
    ASSERT_EQ(parse_udp(wire, kSource, kDestination, datagram), UdpParse::kOk)
        << n << " bytes, seed " << kSeed;
    ASSERT_TRUE(same(datagram.payload, payload)) << n << " bytes, seed " << kSeed;
  }
}

TEST(Udp, AcceptsTheLargestPayloadOfIp) {
  EXPECT_EQ(parsed(written(Bytes(kUdpMaxPayloadBytes, std::byte{0xff}))), UdpParse::kOk);
}

TEST(Udp, RefusesEveryTruncation) {
  for (std::size_t n = 0; n < kHi.size(); ++n) EXPECT_EQ(parsed(first(kHi, n)), UdpParse::kTruncated) << n;
}

TEST(Udp, RefusesALengthThatDoesNotHoldTheHeader) {
  for (int length = 0; length < 8; ++length) {
    EXPECT_EQ(parsed(with(kHi, 5, length)), UdpParse::kBadLength) << length;
  }
}

TEST(Udp, RefusesALengthThatDiffersFromIps) {
  EXPECT_EQ(parsed(with(kHi, 5, 9)), UdpParse::kBadLength);
  EXPECT_EQ(parsed(with(kHi, 5, 11)), UdpParse::kTruncated);
  EXPECT_EQ(parsed(with(kHi, 4, 0xff)), UdpParse::kTruncated);
  // A tail of zeros, or one that adds up to nothing, would keep the sum: the length alone tells.
  Bytes longer = kHi;
  longer.resize(12);
  EXPECT_EQ(parsed(longer), UdpParse::kBadLength);
}

TEST(Udp, RefusesAWrongChecksum) {
  EXPECT_EQ(parsed(with(kHi, 7, 0xc6)), UdpParse::kBadChecksum);
  EXPECT_EQ(parsed(with(kHi, 9, 'o')), UdpParse::kBadChecksum);
}

TEST(Udp, RefusesADatagramForAnotherHost) {
  UdpDatagram datagram;
  EXPECT_EQ(parse_udp(kHi, kSource, Ipv4Address(192, 168, 0, 29), datagram), UdpParse::kBadChecksum);
  EXPECT_EQ(parse_udp(kHi, Ipv4Address(192, 168, 1, 31), kDestination, datagram), UdpParse::kBadChecksum);
}

TEST(Udp, DetectsEveryFlippedBit) {
  constexpr std::uint64_t kSeed = 1;
  Prng prng(kSeed);
  const Bytes wire = written(random_bytes(prng, 101));
  for (std::size_t bit = 0; bit < 8 * wire.size(); ++bit) {
    EXPECT_NE(parsed(flipped(wire, bit)), UdpParse::kOk) << "bit " << bit << ", seed " << kSeed;
  }
}

TEST(Udp, AcceptsTheNicsVerifiedChecksum) {
  const Bytes wrong = with(kHi, 6, 0x36);
  UdpDatagram datagram;
  EXPECT_EQ(parse_udp(wrong, kSource, kDestination, datagram, ChecksumBy::kSoftware), UdpParse::kBadChecksum);
  ASSERT_EQ(parse_udp(wrong, kSource, kDestination, datagram, ChecksumBy::kHardware), UdpParse::kOk);
  EXPECT_TRUE(datagram.has_checksum);
}

TEST(Udp, ZeroChecksumMeansNoChecksum) {
  UdpDatagram datagram;
  const Bytes unsummed = with(with(with(kHi, 6, 0), 7, 0), 9, 'o');
  ASSERT_EQ(parse_udp(unsummed, kSource, kDestination, datagram), UdpParse::kOk);
  EXPECT_FALSE(datagram.has_checksum);
  EXPECT_TRUE(same(datagram.payload, bytes("Ho")));
}

TEST(Udp, ZeroSumIsSentAsAllOnes) {
  const Bytes wire = written(bytes({0x7e, 0x2e}));  // the one payload of this length whose checksum is zero
  EXPECT_EQ(wire[6], std::byte{0xff});
  EXPECT_EQ(wire[7], std::byte{0xff});
  UdpDatagram datagram;
  ASSERT_EQ(parse_udp(wire, kSource, kDestination, datagram), UdpParse::kOk);
  EXPECT_TRUE(datagram.has_checksum);
  EXPECT_EQ(parsed(flipped(wire, 8 * 8)), UdpParse::kBadChecksum) << "all ones is a sum, not the lack of one";
}

TEST(UdpDeathTest, RefusesToWriteADatagramThatIsTooLong) {
  Bytes at(8);
  EXPECT_DEATH(write_udp(at, {.payload_bytes = kUdpMaxPayloadBytes + 1}, 0), "65508 and 65507");
  EXPECT_DEATH(write_udp(MutableBytes(at).first(7), {}, 0), "7 and 8");
}

}  // namespace
}  // namespace braid::stack
