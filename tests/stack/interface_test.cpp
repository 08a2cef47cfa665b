#include "stack/interface.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid::stack {
namespace {

constexpr MacAddress kMac(2, 0, 0, 0, 0, 1);
const Interface kLan{Ipv4Address(10, 0, 0, 1), kMac, 24, Ipv4Address(10, 0, 0, 254)};
const Interface kPoint{Ipv4Address(10, 1, 0, 1), kMac};

TEST(Interface, PrefixDecidesWhatIsOnTheLink) {  // ARP-2
  EXPECT_TRUE(on_link(kLan, Ipv4Address(10, 0, 0, 77)));
  EXPECT_FALSE(on_link(kLan, Ipv4Address(10, 0, 1, 77)));
  EXPECT_TRUE(on_link(kPoint, Ipv4Address(192, 168, 0, 1)));
}

TEST(Interface, NextHopIsTheHostOrTheGateway) {  // ARP-2
  EXPECT_EQ(next_hop(kLan, Ipv4Address(10, 0, 0, 7)), Ipv4Address(10, 0, 0, 7));
  EXPECT_EQ(next_hop(kLan, Ipv4Address(10, 0, 1, 7)), Ipv4Address(10, 0, 0, 254));
  Interface alone = kLan;
  alone.gateway.reset();
  EXPECT_FALSE(next_hop(alone, Ipv4Address(10, 0, 1, 7)).has_value());
}

TEST(Interface, BroadcastIsAllOnesOrAllZeroesBehindThePrefix) {
  EXPECT_TRUE(is_subnet_broadcast(kLan, Ipv4Address(10, 0, 0, 255)));
  EXPECT_TRUE(is_subnet_broadcast(kLan, Ipv4Address(10, 0, 0, 0)));
  EXPECT_FALSE(is_subnet_broadcast(kLan, Ipv4Address(10, 0, 0, 2)));
  EXPECT_FALSE(is_subnet_broadcast(kLan, Ipv4Address(10, 0, 1, 255)));
  EXPECT_FALSE(is_subnet_broadcast(kPoint, Ipv4Address(10, 1, 0, 255)));
  Interface two = kLan;
  two.prefix_bits = 31;
  EXPECT_FALSE(is_subnet_broadcast(two, Ipv4Address(10, 0, 0, 0)));
}

TEST(Interface, MartiansAreAddressesThatNoOtherHostCanHave) {
  for (const Ipv4Address a : {Ipv4Address(0, 0, 0, 1), Ipv4Address(127, 0, 0, 1), Ipv4Address(224, 0, 0, 1),
                              Ipv4Address(255, 255, 255, 255), kLan.address, Ipv4Address(10, 0, 0, 255)})
    EXPECT_TRUE(is_martian(kLan, a));
  EXPECT_FALSE(is_martian(kLan, Ipv4Address(10, 0, 0, 2)));
  EXPECT_FALSE(is_martian(kLan, Ipv4Address(8, 8, 8, 8)));

  const Interface loopback{.address = Ipv4Address(127, 1, 0, 1), .mac = {}};
  EXPECT_FALSE(is_martian(loopback, Ipv4Address(127, 1, 0, 2)));
  EXPECT_TRUE(is_martian(loopback, Ipv4Address(127, 1, 0, 1)));
}

TEST(Interface, LongestPrefixLeadsThereElseAGateway) {  // ARP-2
  std::vector<Interface> links{kPoint, kLan};
  EXPECT_EQ(link_to(links, Ipv4Address(10, 0, 0, 9)), LinkId(1));
  EXPECT_EQ(link_to(links, Ipv4Address(10, 9, 9, 9)), LinkId(0));
  links[0].prefix_bits = 24;
  EXPECT_EQ(link_to(links, Ipv4Address(8, 8, 8, 8)), LinkId(1));
  links[1].gateway.reset();
  EXPECT_FALSE(link_to(links, Ipv4Address(8, 8, 8, 8)).has_value());
}

}  // namespace
}  // namespace braid::stack
