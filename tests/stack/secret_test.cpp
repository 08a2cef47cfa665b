#include "stack/secure/secret.h"

#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>
#include <utility>

namespace braid::stack {
namespace {

KeyBytes bytes_of(unsigned char value) {
  KeyBytes bytes;
  bytes.fill(std::byte{value});
  return bytes;
}

static_assert(!std::is_copy_constructible_v<Secret> && !std::is_copy_assignable_v<Secret>);

TEST(Secret, HasItsBytesAndIsCopiedOnlyOnDemand) {
  const Secret secret(bytes_of(7));
  EXPECT_EQ(std::memcmp(secret.bytes().data(), bytes_of(7).data(), Secret::kBytes), 0);
  const Secret same = secret.copy();
  EXPECT_TRUE(same == secret);
  EXPECT_FALSE(Secret(bytes_of(8)) == secret);
  KeyBytes last_differs = bytes_of(7);
  last_differs.back() = std::byte{6};
  EXPECT_FALSE(Secret(last_differs) == secret);
}

TEST(Secret, WhatItWasMovedFromIsWiped) {
  Secret first(bytes_of(7));
  Secret second(std::move(first));
  EXPECT_TRUE(first == Secret(KeyBytes{}));  // NOLINT(bugprone-use-after-move)
  Secret third(bytes_of(1));
  third = std::move(second);
  EXPECT_TRUE(second == Secret(KeyBytes{}));  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(third == Secret(bytes_of(7)));
}

TEST(Secret, IsWipedWhenItEnds) {
  alignas(Secret) std::byte memory[sizeof(Secret)];
  // Read through a pointer that the compiler knows nothing of.
  const std::byte* volatile where = memory;
  auto* const secret = new (memory) Secret(bytes_of(7));
  secret->~Secret();
  for (std::size_t i = 0; i < sizeof memory; ++i) EXPECT_EQ(where[i], std::byte{0}) << i;
}

}  // namespace
}  // namespace braid::stack
