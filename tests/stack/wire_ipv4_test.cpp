// IPv4 headers: known ones byte by byte, and one test for each way in which a header can be wrong.
#include "stack/wire/ipv4.h"

#include <gtest/gtest.h>

#include "wire_bytes.h"

namespace braid::stack {
namespace {

// A UDP packet of 115 bytes from 192.168.0.1 to 192.168.0.199, don't fragment, TTL 64: the widely printed
// example whose header checksum is b861.
const Bytes kHeader = bytes({0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61,  //
                             192,  168,  0,    1,    192,  168,  0,    199});

constexpr std::size_t kChecksumAt = 10;

Bytes sealed(Bytes packet) {
  const std::size_t header_bytes = std::to_integer<std::size_t>(packet[0] & std::byte{0xf}) * 4;
  store(packet.data() + kChecksumAt, std::uint16_t{0});
  store_be(packet.data() + kChecksumAt, plain_checksum(ByteView(packet).first(header_bytes)));
  return packet;
}

Bytes packet_of(std::size_t payload_bytes) {
  Bytes packet = kHeader;
  packet.resize(kHeader.size() + payload_bytes, std::byte{0xee});
  store_be(packet.data() + 2, static_cast<std::uint16_t>(packet.size()));
  return sealed(packet);
}

// A piece at `offset_bytes` of a larger packet.
Bytes fragment_of(std::size_t payload_bytes, std::size_t offset_bytes, bool more) {
  Bytes packet = packet_of(payload_bytes);
  store_be(packet.data() + 6, static_cast<std::uint16_t>((more ? 0x2000 : 0) | offset_bytes / 8));
  return sealed(packet);
}

Ipv4Parse parsed(const Bytes& wire) {
  Ipv4Packet packet;
  return parse_ipv4(wire, packet);
}

TEST(Ipv4, ReadsAKnownHeader) {
  Bytes wire = kHeader;
  wire.resize(0x73, std::byte{0xab});
  Ipv4Packet packet;
  ASSERT_EQ(parse_ipv4(wire, packet), Ipv4Parse::kOk);
  EXPECT_EQ(packet.source, Ipv4Address(192, 168, 0, 1));
  EXPECT_EQ(packet.destination, Ipv4Address(192, 168, 0, 199));
  EXPECT_EQ(packet.protocol, IpProtocol::kUdp);
  EXPECT_EQ(packet.time_to_live, 64);
  EXPECT_EQ(packet.type_of_service, 0);
  EXPECT_EQ(packet.identification, 0);
  EXPECT_TRUE(packet.dont_fragment);
  EXPECT_FALSE(packet.is_fragment());
  EXPECT_EQ(packet.header.size(), 20u);
  EXPECT_EQ(packet.payload.size(), 95u);
  EXPECT_EQ(packet.payload.data(), wire.data() + 20);
}

TEST(Ipv4, ReadsAPingFromTheWire) {
  // An echo request of 84 bytes, 10.0.0.1 to 10.0.0.2.
  Bytes ping = bytes({0x45, 0x00, 0x00, 0x54, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x01, 0x0a, 0x61,  //
                      10,   0,    0,    1,    10,   0,    0,    2,    8,    0});
  ping.resize(84);
  Ipv4Packet packet;
  ASSERT_EQ(parse_ipv4(ping, packet), Ipv4Parse::kOk);
  EXPECT_EQ(packet.protocol, IpProtocol::kIcmp);
  EXPECT_EQ(packet.identification, 0x1c46);
  EXPECT_EQ(packet.payload.size(), 64u);
}

TEST(Ipv4, WritesTheKnownHeader) {
  Bytes wire(24, std::byte{0x5a});
  EXPECT_EQ(write_ipv4(wire, {.source = Ipv4Address(192, 168, 0, 1),
                              .destination = Ipv4Address(192, 168, 0, 199),
                              .payload_bytes = 0x73 - 20}),
            kIpv4HeaderBytes);
  EXPECT_EQ(first(wire, 20), kHeader);
  EXPECT_EQ(wire[20], std::byte{0x5a});
}

TEST(Ipv4, ReadsEveryFieldThatItWrites) {
  const Ipv4Fields fields{.source = Ipv4Address(10, 1, 2, 3),
                          .destination = Ipv4Address(10, 4, 5, 6),
                          .protocol = IpProtocol::kIcmp,
                          .payload_bytes = 16,
                          .type_of_service = 0xb9,
                          .time_to_live = 3,
                          .dont_fragment = false,
                          .more_fragments = true,
                          .identification = 0xbeef,
                          .fragment_offset_bytes = 1480};
  Bytes wire(36);
  write_ipv4(wire, fields);
  Ipv4Packet packet;
  ASSERT_EQ(parse_ipv4(wire, packet), Ipv4Parse::kFragment);
  EXPECT_EQ(packet.source, fields.source);
  EXPECT_EQ(packet.destination, fields.destination);
  EXPECT_EQ(packet.protocol, fields.protocol);
  EXPECT_EQ(packet.type_of_service, fields.type_of_service);
  EXPECT_EQ(packet.time_to_live, fields.time_to_live);
  EXPECT_EQ(packet.identification, fields.identification);
  EXPECT_EQ(packet.fragment_offset_bytes, fields.fragment_offset_bytes);
  EXPECT_TRUE(packet.more_fragments);
  EXPECT_FALSE(packet.dont_fragment);
  EXPECT_EQ(packet.payload.size(), 16u);
}

TEST(Ipv4, RemovesThePaddingOfAShortFrame) {
  Bytes padded = packet_of(9);
  padded.resize(46);
  Ipv4Packet packet;
  ASSERT_EQ(parse_ipv4(padded, packet), Ipv4Parse::kOk);
  EXPECT_TRUE(same(packet.payload, Bytes(9, std::byte{0xee})));
}

TEST(Ipv4, APacketMayHaveNoPayload) {
  Ipv4Packet packet;
  const Bytes wire = packet_of(0);
  ASSERT_EQ(parse_ipv4(wire, packet), Ipv4Parse::kOk);
  EXPECT_TRUE(packet.payload.empty());
}

TEST(Ipv4, SkipsOptionsAndCountsThemInTheChecksum) {
  Bytes wire = packet_of(12);  // the first eight bytes of which become options
  wire[0] = std::byte{0x47};
  wire = sealed(wire);
  Ipv4Packet packet;
  ASSERT_EQ(parse_ipv4(wire, packet), Ipv4Parse::kOk);
  EXPECT_EQ(packet.header.size(), 28u);
  EXPECT_EQ(packet.payload.size(), 4u);
  EXPECT_EQ(parsed(flipped(wire, 8 * 27)), Ipv4Parse::kBadChecksum);
}

TEST(Ipv4, RefusesEveryTruncation) {
  const Bytes wire = packet_of(30);
  for (std::size_t n = 0; n < wire.size(); ++n) EXPECT_EQ(parsed(first(wire, n)), Ipv4Parse::kTruncated) << n;
  EXPECT_EQ(parsed(wire), Ipv4Parse::kOk);
}

TEST(Ipv4, RefusesOptionsThatReachPastTheFrame) {
  EXPECT_EQ(parsed(with(packet_of(20), 0, 0x4f)), Ipv4Parse::kTruncated);
}

TEST(Ipv4, RefusesEveryOtherVersion) {
  for (int version = 0; version < 16; ++version) {
    if (version == 4) continue;
    EXPECT_EQ(parsed(sealed(with(packet_of(30), 0, version << 4 | 5))), Ipv4Parse::kBadVersion) << version;
  }
}

TEST(Ipv4, RefusesAHeaderOfLessThanFiveWords) {
  for (int words = 0; words < 5; ++words) {
    EXPECT_EQ(parsed(sealed(with(packet_of(30), 0, 0x40 | words))), Ipv4Parse::kBadHeaderLength) << words;
  }
}

TEST(Ipv4, RefusesATotalLengthThatDoesNotHoldTheHeader) {
  for (const int total : {0, 1, 19}) {
    EXPECT_EQ(parsed(sealed(with(packet_of(30), 3, total))), Ipv4Parse::kBadTotalLength) << total;
  }
  // Nor one that cuts into the options.
  EXPECT_EQ(parsed(sealed(with(with(packet_of(30), 3, 20), 0, 0x46))), Ipv4Parse::kBadTotalLength);
}

TEST(Ipv4, RefusesATotalLengthThatTheFrameDoesNotHold) {
  EXPECT_EQ(parsed(sealed(with(packet_of(30), 3, 51))), Ipv4Parse::kTruncated);
  EXPECT_EQ(parsed(sealed(with(packet_of(30), 2, 0xff))), Ipv4Parse::kTruncated);
}

TEST(Ipv4, RefusesAWrongChecksum) {
  EXPECT_EQ(parsed(flipped(packet_of(30), 8 * kChecksumAt)), Ipv4Parse::kBadChecksum);
}

TEST(Ipv4, AcceptsTheNicsVerifiedChecksum) {
  const Bytes wire = with(packet_of(30), kChecksumAt, 0);
  Ipv4Packet packet;
  EXPECT_EQ(parse_ipv4(wire, packet, ChecksumBy::kSoftware), Ipv4Parse::kBadChecksum);
  EXPECT_EQ(parse_ipv4(wire, packet, ChecksumBy::kHardware), Ipv4Parse::kOk);
}

TEST(Ipv4, RefusesAPacketWithoutTimeToLive) {
  EXPECT_EQ(parsed(sealed(with(packet_of(30), 8, 0))), Ipv4Parse::kTimeToLiveIsOver);
  EXPECT_EQ(parsed(sealed(with(packet_of(30), 8, 1))), Ipv4Parse::kOk);
}

TEST(Ipv4, DetectsEveryFlippedBitOfAHeader) {
  const Bytes wire = packet_of(30);
  for (std::size_t bit = 0; bit < 8 * kIpv4HeaderBytes; ++bit) {
    const Ipv4Parse result = parsed(flipped(wire, bit));
    EXPECT_NE(result, Ipv4Parse::kOk) << "bit " << bit;
    EXPECT_NE(result, Ipv4Parse::kFragment) << "bit " << bit;
  }
}

TEST(Ipv4, FragmentHasTheFieldsThatReassemblyNeeds) {
  const Bytes middle = sealed(with(with(fragment_of(1480, 2960, true), 4, 0x12), 5, 0x34));
  Ipv4Packet packet;
  ASSERT_EQ(parse_ipv4(middle, packet), Ipv4Parse::kFragment);
  EXPECT_TRUE(packet.more_fragments);
  EXPECT_EQ(packet.fragment_offset_bytes, 2960);
  EXPECT_EQ(packet.identification, 0x1234);
  EXPECT_EQ(packet.payload.size(), 1480u);

  EXPECT_EQ(parsed(fragment_of(1480, 0, true)), Ipv4Parse::kFragment) << "the first";
  EXPECT_EQ(parsed(fragment_of(3, 2960, false)), Ipv4Parse::kFragment) << "the last, of any length";
  EXPECT_EQ(parsed(fragment_of(3, 0, false)), Ipv4Parse::kOk) << "first and last is whole";
}

TEST(Ipv4, RefusesAFragmentBeyondTheLongestPacket) {
  EXPECT_EQ(parsed(fragment_of(1479, 0, true)), Ipv4Parse::kBadFragment)
      << "not the last and no multiple of 8";
  EXPECT_EQ(parsed(fragment_of(0, 0, true)), Ipv4Parse::kBadFragment) << "not the last and empty";
  // 20 + 65512 + 3 is the longest packet that there is.
  EXPECT_EQ(parsed(fragment_of(3, 65512, false)), Ipv4Parse::kFragment);
  EXPECT_EQ(parsed(fragment_of(4, 65512, false)), Ipv4Parse::kBadFragment);
  EXPECT_EQ(parsed(fragment_of(8, 65528, false)), Ipv4Parse::kBadFragment);
}

TEST(Ipv4DeathTest, RefusesToWriteAPacketThatIsTooLong) {
  Bytes at(20);
  EXPECT_DEATH(write_ipv4(at, {.payload_bytes = 65516}), "65516 and 65515");
  EXPECT_DEATH(write_ipv4(MutableBytes(at).first(19), {}), "19 and 20");
  EXPECT_DEATH(write_ipv4(at, {.fragment_offset_bytes = 12}), "4 and 0");
}

}  // namespace
}  // namespace braid::stack
