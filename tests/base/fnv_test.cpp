#include "base/fnv.h"

#include <gtest/gtest.h>

#include <span>
#include <string_view>

namespace braid {
namespace {

std::uint64_t hash_of(std::string_view text) {
  Fnv1a hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.value();
}

// Test vectors of the authors (http://www.isthe.com/chongo/tech/comp/fnv/).
TEST(Fnv1a, AgreesWithThePublishedValues) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, NumberIsHashedLeastSignificantByteFirst) {
  Fnv1a hash;
  hash.add(std::uint64_t{0x0000000000000061});
  EXPECT_EQ(hash.value(), hash_of(std::string_view("a\0\0\0\0\0\0\0", 8)));
}

}  // namespace
}  // namespace braid
