// Ids: ordered, hashable, and of different kinds.
#include "base/ids.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace braid {
namespace {

TEST(Ids, ValueIsTheGivenNumber) {
  EXPECT_EQ(ClusterId(3).value(), 3);
  EXPECT_EQ(PortId().value(), 0u);
  EXPECT_EQ(NodeId(4), NodeId(4));
  EXPECT_NE(NodeId(4), NodeId(5));
  EXPECT_LT(PageId(4), PageId(5));
}

TEST(Ids, KindsDoNotMix) {
  static_assert(!std::is_constructible_v<NodeId, PortId>);
  static_assert(!std::is_convertible_v<std::uint32_t, PageId>);
  static_assert(!std::is_convertible_v<PageId, std::uint32_t>);
}

TEST(Ids, AreAsSmallAsTheirNumber) {
  static_assert(sizeof(ProxyId) == 1 && sizeof(ClusterId) == 2 && sizeof(PageId) == 4);
}

TEST(Ids, ServeAsKeys) {
  std::unordered_set<PortId> open;
  open.insert(PortId(1));
  open.insert(PortId(2));
  open.insert(PortId(1));
  EXPECT_EQ(open.size(), 2u);
  EXPECT_TRUE(open.contains(PortId(2)));
  EXPECT_FALSE(open.contains(PortId(3)));
}

}  // namespace
}  // namespace braid
