#include "stack/udp_ports.h"

#include <gtest/gtest.h>

namespace braid::stack {
namespace {

TEST(UdpPorts, EachProxyListensOnItsOwn) {  // UDP-2
  const UdpPorts ports(7700, 1, 3);
  EXPECT_EQ(ports.own_port(), 7701);
  EXPECT_EQ(ports.own_proxy(), 1u);
  EXPECT_EQ(ports.listener(7700), 0u);
  EXPECT_EQ(ports.listener(7702), 2u);
  EXPECT_FALSE(ports.listener(7699).has_value());
  EXPECT_FALSE(ports.listener(7703).has_value());
}

TEST(UdpPorts, SteeredPortsBelongToTheirProxy) {  // SC-12
  const UdpPorts ports(7700, 0, 2);
  EXPECT_EQ(ports.owner(first_steered_port(0)), 0u);
  EXPECT_EQ(ports.owner(first_steered_port(1)), 1u);
  EXPECT_EQ(ports.owner(first_steered_port(2) - 1), 1u);
  EXPECT_FALSE(ports.owner(first_steered_port(2)).has_value());
  EXPECT_FALSE(ports.owner(first_steered_port(0) - 1).has_value());
  EXPECT_FALSE(ports.listener(first_steered_port(0)).has_value());
}

TEST(UdpPorts, SourceIsTheRequestedPortOnlyIfItBelongsToTheProxy) {  // SC-12
  const UdpPorts ports(7700, 1, 2);
  EXPECT_EQ(ports.source(0), 7701);
  EXPECT_EQ(ports.source(first_steered_port(1) + 5), first_steered_port(1) + 5);
  EXPECT_EQ(ports.source(first_steered_port(0) + 5), 7701);
  EXPECT_EQ(ports.source(first_steered_port(2)), 7701);
}

TEST(UdpPorts, BindsEachFreePortOnce) {  // UDP-2
  UdpPorts ports(7700, 0, 2);
  EXPECT_FALSE(ports.bind(0));
  EXPECT_FALSE(ports.bind(7701));
  EXPECT_FALSE(ports.bind(first_steered_port(1)));
  EXPECT_TRUE(ports.bind(53));
  EXPECT_TRUE(ports.is_bound(53));
  EXPECT_FALSE(ports.bind(53));
  ports.unbind(53);
  EXPECT_FALSE(ports.is_bound(53));
  EXPECT_TRUE(ports.bind(53));
}

}  // namespace
}  // namespace braid::stack
