#include "base/cluster_bits.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace braid {
namespace {

void add(ClusterBits& bits, std::initializer_list<std::uint16_t> clusters) {
  for (const std::uint16_t c : clusters) bits.add(ClusterId(c));
}
std::vector<unsigned> members(const ClusterBits& bits) {
  std::vector<unsigned> all;
  bits.for_each([&](ClusterId c) { all.push_back(c.value()); });
  return all;
}

TEST(ClusterBits, MembersComeInTheOrderOfTheirNumbers) {
  ClusterBits bits(200);
  EXPECT_TRUE(bits.empty());
  add(bits, {199, 0, 64, 63, 64});
  EXPECT_EQ(members(bits), (std::vector<unsigned>{0, 63, 64, 199}));
  EXPECT_EQ(bits.size(), 4u) << "one was added twice";
  EXPECT_TRUE(bits.contains(ClusterId(64)));
  EXPECT_FALSE(bits.contains(ClusterId(65)));
  bits.remove(ClusterId(64));
  bits.remove(ClusterId(65));
  EXPECT_EQ(members(bits), (std::vector<unsigned>{0, 63, 199}));
  EXPECT_EQ(bits.words()[3], std::uint64_t{1} << 199 % 64);
  bits.clear();
  EXPECT_TRUE(bits.empty());
  EXPECT_EQ(members(bits), std::vector<unsigned>{});
}

TEST(ClusterBits, MemberMayBeRemovedWhileItIsVisited) {
  ClusterBits bits(70);
  for (std::uint16_t c = 60; c < 70; ++c) bits.add(ClusterId(c));
  unsigned visited = 0;
  bits.for_each([&](ClusterId c) {
    ++visited;
    bits.remove(c);
  });
  EXPECT_EQ(visited, 10u);
  EXPECT_TRUE(bits.empty());
}

TEST(ClusterBits, UnionVisitsEachOnce) {
  ClusterBits a(130), b(130);
  add(a, {1, 70, 129});
  add(b, {0, 70});
  std::vector<unsigned> all;
  ClusterBits::for_each_of_either(a, b, [&](ClusterId c) { all.push_back(c.value()); });
  EXPECT_EQ(all, (std::vector<unsigned>{0, 1, 70, 129}));
}

}  // namespace
}  // namespace braid
