// Addresses as text and as bytes of the wire.
#include "stack/wire/addresses.h"

#include <gtest/gtest.h>

#include "wire_bytes.h"

namespace braid::stack {
namespace {

TEST(MacAddress, IsPrintedAsItIsRead) {
  const auto mac = MacAddress::parse("02:00:0a:Ff:10:9c");
  ASSERT_TRUE(mac.has_value());
  EXPECT_EQ(*mac, MacAddress(0x02, 0x00, 0x0a, 0xff, 0x10, 0x9c));
  EXPECT_EQ(mac->to_string(), "02:00:0a:ff:10:9c");
}

TEST(MacAddress, RefusesEveryOtherText) {
  for (const char* text :
       {"", "02", "02:00:0a:ff:10", "02:00:0a:ff:10:9c:", "02:00:0a:ff:10:9c:01", "02-00-0a-ff-10-9c",
        "2:0:a:ff:10:9c", "02:00:0a:ff:10:9g", "002:0:0a:ff:10:9c", ":02:00:0a:ff:10:9", "02:00:0a:ff:10: c",
        "02:00:0a:ff:10:+c", "02000aff109c", "02:00:0a:ff::109c"}) {
    EXPECT_FALSE(MacAddress::parse(text).has_value()) << text;
  }
}

TEST(MacAddress, RecognizesAddressesOfOneStation) {
  EXPECT_TRUE(MacAddress(0x02, 0, 0, 0, 0, 1).is_unicast());
  EXPECT_FALSE(MacAddress(0x01, 0, 0x5e, 0, 0, 1).is_unicast());
  EXPECT_FALSE(MacAddress().is_unicast());
  EXPECT_FALSE(MacAddress::broadcast().is_unicast());
  EXPECT_TRUE(MacAddress::broadcast().is_broadcast());
  EXPECT_FALSE(MacAddress(0xff, 0xff, 0xff, 0xff, 0xff, 0xfe).is_broadcast());
}

TEST(MacAddress, IsInNetworkByteOrderOnTheWire) {
  const Bytes wire = bytes({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(MacAddress::load(wire.data()).to_string(), "01:02:03:04:05:06");
  Bytes copy(6);
  MacAddress(1, 2, 3, 4, 5, 6).store(copy.data());
  EXPECT_EQ(copy, wire);
}

TEST(Ipv4Address, IsPrintedAsItIsRead) {
  const auto ip = Ipv4Address::parse("10.255.0.7");
  ASSERT_TRUE(ip.has_value());
  EXPECT_EQ(ip->value(), 0x0aff0007u);
  EXPECT_EQ(*ip, Ipv4Address(10, 255, 0, 7));
  EXPECT_EQ(ip->to_string(), "10.255.0.7");
  EXPECT_EQ(Ipv4Address::parse("0.0.0.0"), Ipv4Address());
}

TEST(Ipv4Address, RefusesEveryOtherText) {
  for (const char* text : {"", "10", "10.0.0", "10.0.0.", "10.0.0.1.", "10.0.0.1.2", "256.0.0.1",
                           "10.0.0.1000", "10..0.1", ".10.0.0.1", "010.0.0.1", "10.0.0.01", "10.0.0.-1",
                           "10.0.0.+1", "10.0.0.1 ", " 10.0.0.1", "10.0.0.a", "0x0a.0.0.1", "10,0,0,1"}) {
    EXPECT_FALSE(Ipv4Address::parse(text).has_value()) << text;
  }
}

TEST(Ipv4Address, RecognizesAddressesOfOneHost) {
  EXPECT_TRUE(Ipv4Address(10, 0, 0, 1).is_unicast());
  EXPECT_FALSE(Ipv4Address().is_unicast());
  EXPECT_FALSE(Ipv4Address(255, 255, 255, 255).is_unicast());
  EXPECT_TRUE(Ipv4Address(255, 255, 255, 255).is_broadcast());
  EXPECT_FALSE(Ipv4Address(223, 255, 255, 255).is_multicast());
  EXPECT_TRUE(Ipv4Address(224, 0, 0, 0).is_multicast());
  EXPECT_TRUE(Ipv4Address(239, 255, 255, 255).is_multicast());
  EXPECT_FALSE(Ipv4Address(240, 0, 0, 0).is_multicast());
  EXPECT_FALSE(Ipv4Address(224, 0, 0, 1).is_unicast());
}

TEST(Ipv4Address, IsInNetworkByteOrderOnTheWire) {
  const Bytes wire = bytes({10, 1, 2, 3});
  EXPECT_EQ(Ipv4Address::load(wire.data()), Ipv4Address(10, 1, 2, 3));
  Bytes copy(4);
  Ipv4Address(10, 1, 2, 3).store(copy.data());
  EXPECT_EQ(copy, wire);
}

}  // namespace
}  // namespace braid::stack
