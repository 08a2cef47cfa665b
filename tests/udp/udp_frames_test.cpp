#include "proxy/udp/udp_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "tests/nic/frames.h"

namespace braid::proxy {
namespace {

using stack::Ipv4Address;
using stack::MacAddress;

// What test::udp_frame() makes.
constexpr UdpEnd kFrom{Ipv4Address(10, 0, 0, 1), 5000};
constexpr UdpEnd kTo{Ipv4Address(10, 0, 0, 2), 5001};

TEST(UdpFrames, EveryAddressHasAStationOfItsOwn) {
  EXPECT_EQ(station_of(Ipv4Address(10, 1, 2, 3)), MacAddress(0x02, 0x62, 10, 1, 2, 3));
  EXPECT_TRUE(station_of(Ipv4Address(255, 0, 0, 1)).is_unicast());
}

TEST(UdpFrames, DepartingFrameIsADatagramToItsDestination) {
  const std::vector<std::byte> frame = test::udp_frame(7, 300);
  const auto datagram = UdpFrames(kFrom).departure(frame);
  ASSERT_TRUE(datagram);
  EXPECT_EQ(datagram->to, kTo);
  EXPECT_EQ(datagram->payload.data(), frame.data() + test::kUdpPayloadOffset);
  EXPECT_EQ(datagram->payload.size(), 300u);
}

TEST(UdpFrames, OnlyWholeUdpPacketsFromTheSocketsEndAreDatagrams) {
  const UdpFrames frames(kFrom);
  const std::vector<std::byte> right = test::udp_frame(7, 300);
  const auto departs = [&](auto change) {
    std::vector<std::byte> frame = right;
    change(frame);
    return frames.departure(frame).has_value();
  };
  EXPECT_TRUE(departs([](auto&) {}));
  EXPECT_FALSE(departs([](auto& f) { f.resize(10); }));
  EXPECT_FALSE(departs([](auto& f) { f.resize(100); })) << "shorter than its headers say";
  EXPECT_FALSE(departs([](auto& f) { store_be<std::uint16_t>(f.data() + 12, 0x0806); })) << "ARP";
  EXPECT_FALSE(departs([](auto& f) { f[14 + 9] = std::byte{1}; })) << "ICMP";
  EXPECT_FALSE(departs([](auto& f) { store_be<std::uint16_t>(f.data() + 14 + 6, 0x2000); })) << "a fragment";
  EXPECT_FALSE(departs([](auto& f) { store_be<std::uint32_t>(f.data() + 14 + 12, 0x0a000009); }))
      << "address";
  EXPECT_FALSE(departs([](auto& f) { store_be<std::uint16_t>(f.data() + 14 + 20, 5009); })) << "port";
}

TEST(UdpFrames, ArrivalIsTheFrameThatTheSenderWouldHaveSent) {
  for (const std::uint32_t bytes : {0u, 1u, 64u, 1473u, 8999u}) {
    SCOPED_TRACE(bytes);
    const std::vector<std::byte> sent = test::udp_frame(9, bytes);
    std::vector<std::byte> room(UdpFrames::kHeaderBytes + bytes);
    std::copy(sent.begin() + test::kUdpPayloadOffset, sent.end(), room.begin() + UdpFrames::kHeaderBytes);
    UdpFrames frames(kTo);
    const MutableBytes frame = frames.arrival(kFrom, MutableBytes(room).subspan(UdpFrames::kHeaderBytes));
    ASSERT_EQ(frame.size(), sent.size());
    EXPECT_TRUE(test::ip_checksum_holds(frame));
    EXPECT_TRUE(test::udp_checksum_holds(frame));
    stack::EthernetFrame ethernet;
    ASSERT_EQ(parse_ethernet(frame, ethernet), stack::EthernetParse::kOk);
    EXPECT_EQ(ethernet.destination, station_of(kTo.address));
    EXPECT_EQ(ethernet.source, station_of(kFrom.address));
    // The other end takes it as its own.
    const auto back = UdpFrames(kFrom).departure(frame);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->to, kTo);
    EXPECT_TRUE(
        std::equal(back->payload.begin(), back->payload.end(), sent.begin() + test::kUdpPayloadOffset));
  }
}

TEST(UdpFrames, HeadersOfManyPeersDoNotMix) {
  UdpFrames frames(kTo);
  std::vector<std::byte> room(UdpFrames::kHeaderBytes + 8);
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t peer = 0; peer < 500; ++peer) {
      const UdpEnd from{Ipv4Address(0x0a010000 + peer), static_cast<std::uint16_t>(7000 + peer % 7)};
      const MutableBytes frame = frames.arrival(from, MutableBytes(room).subspan(UdpFrames::kHeaderBytes));
      EXPECT_EQ(load_be<std::uint32_t>(frame.data() + 14 + 12), from.address.value());
      EXPECT_EQ(load_be<std::uint16_t>(frame.data() + 14 + 20), from.port);
    }
  }
}

}  // namespace
}  // namespace braid::proxy
