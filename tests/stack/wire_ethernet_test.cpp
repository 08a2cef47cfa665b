// Ethernet headers: read, written, cut short.
#include "stack/wire/ethernet.h"

#include <gtest/gtest.h>

#include "wire_bytes.h"

namespace braid::stack {
namespace {

const Bytes kFrame = bytes({0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00, 0xca, 0xfe});

TEST(Ethernet, ReadsAddressesAndType) {
  EthernetFrame frame;
  ASSERT_EQ(parse_ethernet(kFrame, frame), EthernetParse::kOk);
  EXPECT_EQ(frame.destination, MacAddress(2, 0, 0, 0, 0, 2));
  EXPECT_EQ(frame.source, MacAddress(2, 0, 0, 0, 0, 1));
  EXPECT_EQ(frame.type, EtherType::kIpv4);
  EXPECT_TRUE(same(frame.payload, bytes({0xca, 0xfe})));
}

TEST(Ethernet, AcceptsUnknownTypes) {
  EthernetFrame frame;
  ASSERT_EQ(parse_ethernet(with(with(kFrame, 12, 0x86), 13, 0xdd), frame), EthernetParse::kOk);
  EXPECT_EQ(static_cast<int>(frame.type), 0x86dd);
}

TEST(Ethernet, AHeaderAloneHasAnEmptyPayload) {
  const Bytes header = first(kFrame, kEthernetHeaderBytes);
  EthernetFrame frame;
  ASSERT_EQ(parse_ethernet(header, frame), EthernetParse::kOk);
  EXPECT_TRUE(frame.payload.empty());
}

TEST(Ethernet, RefusesEverythingShorterThanAHeader) {
  for (std::size_t n = 0; n < kEthernetHeaderBytes; ++n) {
    EthernetFrame frame;
    EXPECT_EQ(parse_ethernet(first(kFrame, n), frame), EthernetParse::kTruncated) << n;
  }
}

TEST(Ethernet, WritesWhatItReads) {
  Bytes frame(16, std::byte{0x5a});
  EXPECT_EQ(
      write_ethernet(frame, MacAddress(2, 0, 0, 0, 0, 2), MacAddress(2, 0, 0, 0, 0, 1), EtherType::kIpv4),
      14u);
  EXPECT_EQ(first(frame, 14), first(kFrame, 14));
  EXPECT_EQ(frame[14], std::byte{0x5a});
}

}  // namespace
}  // namespace braid::stack
