// The fuzzers' mutators make frames that our parsers accept, change every field sooner or later, and make lengths that are
// wrong by one.
#include "tests/fuzz/mutator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

// custom_mutation() asks libFuzzer for every other mutation.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t size, std::size_t) {
  return size;
}

namespace braid::fuzz {
namespace {

constexpr unsigned kTries = 4000;
constexpr FrameEnds kEnds = {{2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}, 0x0a000002, 0x0a000001, 7700, 7700};

ByteView ip_of(const std::vector<std::byte>& frame) {
  return ByteView(frame).subspan(kEthernetBytes);
}

TEST(Mutator, FramesHaveRightChecksumsAndLengthsRightOrWrongByOne) {
  unsigned right = 0;
  std::array<unsigned, 3> ip_wrong{}, udp_wrong{};  // by -1, 0, +1
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const std::vector<std::byte> payload = make_packet(draw);
    const std::vector<std::byte> frame = make_frame(draw, kEnds, payload);
    ASSERT_GE(frame.size() + 1, kPayloadAt);
    EXPECT_EQ(internet_sum(ip_of(frame).first(kIpv4Bytes)), 0xffffu) << seed;
    const auto wrong_by = [](std::size_t is, std::size_t should_be) {
      return static_cast<int>(is) - static_cast<int>(should_be);
    };
    const int ip =
        wrong_by(load_be<std::uint16_t>(ip_of(frame).data() + 2), kIpv4Bytes + kUdpBytes + payload.size());
    const int udp =
        wrong_by(load_be<std::uint16_t>(ip_of(frame).data() + kIpv4Bytes + 4), kUdpBytes + payload.size());
    ASSERT_LE(std::abs(ip), 1);
    ASSERT_LE(std::abs(udp), 1);
    ++ip_wrong[static_cast<std::size_t>(ip + 1)];
    ++udp_wrong[static_cast<std::size_t>(udp + 1)];

    stack::Ipv4Packet packet;
    if (stack::parse_ipv4(ip_of(frame), packet) != stack::Ipv4Parse::kOk ||
        packet.header.size() != kIpv4Bytes)
      continue;
    stack::UdpDatagram datagram;
    const stack::UdpParse parsed = stack::parse_udp(packet.payload, stack::Ipv4Address(kEnds.source_address),
                                                    stack::Ipv4Address(kEnds.destination_address), datagram);
    EXPECT_NE(parsed, stack::UdpParse::kBadChecksum) << seed;
    if (parsed == stack::UdpParse::kOk) ++right;
  }
  EXPECT_GT(right, kTries / 3);
  for (const unsigned times : {ip_wrong[0], ip_wrong[2], udp_wrong[0], udp_wrong[2]})
    EXPECT_GT(times, kTries / 20);
  EXPECT_GT(ip_wrong[1], kTries / 2);
  EXPECT_GT(udp_wrong[1], kTries / 2);
}

TEST(Mutator, IcmpMessagesHaveRightChecksums) {
  unsigned echoes = 0;
  std::set<std::byte> types;
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const std::vector<std::byte> message = make_icmp(draw, kEnds);
    ASSERT_GE(message.size(), 8u);
    EXPECT_EQ(internet_sum(message), 0xffffu) << seed;
    types.insert(message[0]);
    if (message[0] == std::byte{8} && message[1] == std::byte{0}) ++echoes;
  }
  EXPECT_GE(types.size(), 6u);
  EXPECT_GT(echoes, kTries / 8);
}

TEST(Mutator, EveryByteOfTheHeadersChanges) {
  std::array<std::set<std::byte>, kPayloadAt> seen;
  std::array<std::set<std::byte>, stack::kMaxPacketHeaderBytes> header;
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const std::vector<std::byte> packet = make_packet(draw);
    for (std::size_t i = 0; i < std::min(packet.size(), header.size()); ++i) header[i].insert(packet[i]);
    const std::vector<std::byte> frame = make_frame(draw, kEnds, packet);
    for (std::size_t i = 0; i < std::min(frame.size(), seen.size()); ++i) seen[i].insert(frame[i]);
  }
  // The first byte is the version.
  for (std::size_t i = 1; i < header.size(); ++i)
    EXPECT_GT(header[i].size(), 2u) << "byte " << i << " of the packet's header";
  for (std::size_t i = kEthernetBytes; i < kPayloadAt; ++i) {
    const std::size_t in_ip = i - kEthernetBytes;
    if (in_ip >= 12 && in_ip < kIpv4Bytes) continue;  // addresses are the peer's
    EXPECT_GT(seen[i].size(), 1u) << "byte " << in_ip << " of the IP and UDP headers";
  }
}

TEST(Mutator, PacketsHaveRecordsThatParseAndSomeThatAreOneByteOff) {
  unsigned whole = 0, broken = 0, trains = 0;
  std::set<unsigned> records, kinds, types, protocols;
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const std::vector<std::byte> packet = make_packet(draw);
    stack::PacketHeader h;
    std::size_t header_bytes = 0;
    if (!stack::parse_packet_header(packet, &h, &header_bytes)) continue;
    types.insert(static_cast<unsigned>(h.type));
    stack::RecordReader reader(ByteView(packet).subspan(header_bytes), h.records);
    stack::Record record;
    ByteView bytes;
    unsigned n = 0;
    for (; reader.next(&record, &bytes); ++n) {
      kinds.insert(static_cast<unsigned>(record.kind));
      protocols.insert(record.protocol.value());
      if (record.messages > 0) ++trains;
    }
    records.insert(n);
    ++(reader.broken() ? broken : whole);
  }
  EXPECT_GT(whole, kTries / 4);
  EXPECT_GT(broken, kTries / 10);
  EXPECT_GT(trains, kTries / 20);
  EXPECT_EQ(types.size(), 7u);
  EXPECT_EQ(kinds.size(), 4u);
  for (const unsigned id : {1u, 2u, 3u, 4u}) EXPECT_TRUE(protocols.contains(id)) << id;
  EXPECT_GT(protocols.size(), 8u) << "unknown ones too";
  EXPECT_GE(records.size(), 4u);
}

TEST(Mutator, TrainsParseOrHaveOneThingWrong) {
  unsigned right = 0, wrong = 0;
  std::set<unsigned> numbers, wrong_numbers;
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const std::vector<std::byte> packet = make_train(draw);
    stack::RecordReader reader(packet, 1);
    stack::Record record;
    ByteView bytes;
    if (reader.next(&record, &bytes) && record.messages > 0) {
      ++right;
      numbers.insert(record.messages);
    } else {
      ++wrong;
      wrong_numbers.insert(load<std::uint8_t>(packet.data() + 18));
    }
  }
  EXPECT_GT(right, kTries / 4);
  EXPECT_GT(wrong, kTries / 8);
  for (const unsigned number : {2u, 3u, 5u, 16u}) EXPECT_TRUE(numbers.contains(number)) << number;
  for (const unsigned number : {1u, 17u, 255u}) EXPECT_TRUE(wrong_numbers.contains(number)) << number;
}

TEST(Mutator, OneFieldOfAPacketChanges) {
  std::array<bool, stack::kPacketHeaderBytes> changed{};
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const std::vector<std::byte> before(60, std::byte{0x35});
    std::vector<std::byte> after = before;
    change_packet(draw, after);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i] == before[i]) continue;
      ASSERT_LT(i, changed.size());
      changed[i] = true;
      ++bytes;
    }
    EXPECT_LE(bytes, 8u);
  }
  EXPECT_EQ(std::count(changed.begin(), changed.end(), false), 1);  // the version
  std::vector<std::byte> tiny(3);
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    change_packet(draw, tiny);
  }
}

TEST(Mutator, EngineMessagesHaveEveryKindAndTheFormOfIt) {
  std::set<dsm::Kind> parsed, refused;
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const std::vector<std::byte> message = make_engine_message(draw);
    if (const auto m = dsm::parse(dsm::PageLength(), message))
      parsed.insert(m->header.kind);
    else
      refused.insert(static_cast<dsm::Kind>(message[0]));
  }
  EXPECT_EQ(parsed.size(), dsm::kKinds - 1);
  EXPECT_EQ(refused.size(), dsm::kKinds - 1);
}

TEST(Mutator, RequestsHaveEveryKind) {
  std::set<std::uint32_t> kinds;
  unsigned right = 0, off = 0;
  for (unsigned seed = 0; seed < kTries; ++seed) {
    Draw draw(seed);
    const proxy::control::Message m = make_request(draw);
    kinds.insert(static_cast<std::uint32_t>(m.kind));
    ++(m.magic == proxy::control::kMagic && m.version == proxy::control::kVersion ? right : off);
  }
  for (std::uint32_t kind = 1; kind <= static_cast<std::uint32_t>(proxy::control::Kind::kConnectMachine);
       ++kind)
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  EXPECT_GT(right, kTries / 2);
  EXPECT_GT(off, 0u);
}

TEST(Mutator, InsertsAnOperationWithinTheLimit) {
  constexpr std::size_t kMax = 40;
  std::array<bool, 3> seen{};  // at the beginning, inside, at the end
  for (unsigned seed = 0; seed < kTries; ++seed) {
    std::array<std::uint8_t, kMax> data;
    data.fill(1);
    const std::size_t size = seed % (kMax + 1);
    const std::size_t result = custom_mutation(data.data(), size, kMax, seed, [](Draw& draw) {
      return std::vector<std::byte>(1 + draw.below(60), std::byte{2});
    });
    ASSERT_LE(result, kMax);
    ASSERT_GE(result, size);
    // Nothing stands in the input but what was there and the operation.
    const auto twos = std::count(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(result), 2);
    if (twos == 0 || result == 0) continue;
    const auto first = static_cast<std::size_t>(std::find(data.begin(), data.end(), 2) - data.begin());
    ASSERT_EQ(std::count(data.begin() + static_cast<std::ptrdiff_t>(first),
                         data.begin() + static_cast<std::ptrdiff_t>(first) + twos, 2),
              twos);
    seen[first == 0 ? 0 : first + static_cast<std::size_t>(twos) == result ? 2 : 1] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1] && seen[2]);
}

}  // namespace
}  // namespace braid::fuzz
