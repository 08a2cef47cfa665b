#include "proxy/daemon/recent_serials.h"

#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

TEST(RecentSerials, SerialIsNewOnce) {  // CN-11
  RecentSerials received;
  for (std::uint32_t s = 1; s <= 3; ++s) EXPECT_TRUE(received.receive(s));
  EXPECT_FALSE(received.receive(2));
  EXPECT_TRUE(received.receive(0xffffffff));  // in any order
  received.forget();
  EXPECT_TRUE(received.receive(2)) << "of a new incarnation";
}

TEST(RecentSerials, OldestSerialsAreForgottenFirst) {  // CN-11
  RecentSerials received;
  for (std::uint32_t s = 0; s <= RecentSerials::kRemembered; ++s) EXPECT_TRUE(received.receive(s));
  EXPECT_FALSE(received.receive(1));
  EXPECT_TRUE(received.receive(0)) << "long forgotten";
}

}  // namespace
}  // namespace braid::proxy
