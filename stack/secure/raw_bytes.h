// Bytes of keys: memory that is wiped, and compared in constant time.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"

namespace braid::stack {

inline constexpr std::size_t kKeyBytes = 32;
using KeyBytes = std::array<std::byte, kKeyBytes>;
using KeyView = std::span<const std::byte, kKeyBytes>;

// Overwrites them, also where the compiler sees that nothing reads them any more.
void wipe(MutableBytes bytes);
// Takes the same time wherever they differ.
bool equal_in_constant_time(ByteView a, ByteView b);

}  // namespace braid::stack
