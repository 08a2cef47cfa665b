// ARP packets: a request and a reply byte by byte, and everything that must not be believed.
#include "stack/wire/arp.h"

#include <gtest/gtest.h>

#include "wire_bytes.h"

namespace braid::stack {
namespace {

// "Who has 10.0.0.2? Tell 10.0.0.1 at 02:00:00:00:00:01."
const Bytes kRequest = bytes({0x00, 0x01, 0x08, 0x00, 6, 4, 0x00, 0x01,        //
                              0x02, 0,    0,    0,    0, 1, 10,   0,    0, 1,  //
                              0,    0,    0,    0,    0, 0, 10,   0,    0, 2});
const ArpPacket kRead{.operation = ArpOperation::kRequest,
                      .sender_mac = MacAddress(2, 0, 0, 0, 0, 1),
                      .sender_ip = Ipv4Address(10, 0, 0, 1),
                      .target_mac = MacAddress(),
                      .target_ip = Ipv4Address(10, 0, 0, 2)};

ArpParse parsed(const Bytes& wire) {
  ArpPacket packet;
  return parse_arp(wire, packet);
}

TEST(Arp, ReadsARequest) {
  ArpPacket packet;
  ASSERT_EQ(parse_arp(kRequest, packet), ArpParse::kOk);
  EXPECT_EQ(packet, kRead);
  EXPECT_FALSE(packet.is_gratuitous());
}

TEST(Arp, ReadsAReplyPaddedToTheShortestFrame) {
  Bytes reply = with(kRequest, 7, 2);
  reply.resize(46);
  ArpPacket packet;
  ASSERT_EQ(parse_arp(reply, packet), ArpParse::kOk);
  EXPECT_EQ(packet.operation, ArpOperation::kReply);
  EXPECT_EQ(packet.sender_mac, kRead.sender_mac);
}

TEST(Arp, RecognizesAnAnnouncement) {
  ArpPacket packet;
  ASSERT_EQ(parse_arp(with(kRequest, 27, 1), packet), ArpParse::kOk);
  EXPECT_TRUE(packet.is_gratuitous());
}

TEST(Arp, WritesWhatItReads) {
  Bytes wire(32, std::byte{0x5a});
  EXPECT_EQ(write_arp(wire, kRead), kArpBytes);
  EXPECT_EQ(first(wire, kArpBytes), kRequest);
  EXPECT_EQ(wire[kArpBytes], std::byte{0x5a});
}

TEST(Arp, RefusesEveryTruncation) {
  for (std::size_t n = 0; n < kArpBytes; ++n)
    EXPECT_EQ(parsed(first(kRequest, n)), ArpParse::kTruncated) << n;
}

TEST(Arp, RefusesEveryOtherKindOfNetwork) {
  EXPECT_EQ(parsed(with(kRequest, 0, 1)), ArpParse::kOtherKind);
  EXPECT_EQ(parsed(with(kRequest, 1, 6)), ArpParse::kOtherKind);
  EXPECT_EQ(parsed(with(kRequest, 2, 0x86)), ArpParse::kOtherKind);
  EXPECT_EQ(parsed(with(kRequest, 3, 1)), ArpParse::kOtherKind);
  EXPECT_EQ(parsed(with(kRequest, 4, 8)), ArpParse::kOtherKind);
  EXPECT_EQ(parsed(with(kRequest, 5, 16)), ArpParse::kOtherKind);
}

TEST(Arp, RefusesOperationsOtherThanRequestAndReply) {
  for (const int operation : {0, 3, 4, 8, 255}) {
    EXPECT_EQ(parsed(with(kRequest, 7, operation)), ArpParse::kBadOperation) << operation;
  }
  EXPECT_EQ(parsed(with(kRequest, 6, 1)), ArpParse::kBadOperation);
}

TEST(Arp, RefusesSenderAddressesThatAreNotAStation) {
  EXPECT_EQ(parsed(with(kRequest, 8, 0x03)), ArpParse::kBadSender) << "multicast station";
  EXPECT_EQ(parsed(with(with(kRequest, 8, 0), 13, 0)), ArpParse::kBadSender) << "station zero";
  EXPECT_EQ(parsed(with(kRequest, 14, 224)), ArpParse::kBadSender) << "multicast host";
  Bytes broadcast = kRequest;
  for (std::size_t i = 14; i < 18; ++i) broadcast[i] = std::byte{255};
  EXPECT_EQ(parsed(broadcast), ArpParse::kBadSender);
}

TEST(Arp, ProbeMayLackASenderAddressButAReplyMayNot) {
  const Bytes probe = with(with(kRequest, 14, 0), 17, 0);
  EXPECT_EQ(parsed(probe), ArpParse::kOk);
  EXPECT_EQ(parsed(with(probe, 7, 2)), ArpParse::kBadSender);
}

}  // namespace
}  // namespace braid::stack
