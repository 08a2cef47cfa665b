#include "proxy/daemon/recent_serials.h"

#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

TEST(RecentSerials, SerialIsNewOnce) {  // CN-11
  RecentSerials heard;
  for (std::uint32_t s = 1; s <= 3; ++s) EXPECT_TRUE(heard.hear(s));
  EXPECT_FALSE(heard.hear(2));
  EXPECT_TRUE(heard.hear(0xffffffff));  // in any order
  heard.forget();
  EXPECT_TRUE(heard.hear(2)) << "of a new incarnation";
}

TEST(RecentSerials, OldestSerialsAreForgottenFirst) {  // CN-11
  RecentSerials heard;
  for (std::uint32_t s = 0; s <= RecentSerials::kRemembered; ++s) EXPECT_TRUE(heard.hear(s));
  EXPECT_FALSE(heard.hear(1));
  EXPECT_TRUE(heard.hear(0)) << "long forgotten";
}

}  // namespace
}  // namespace braid::proxy
