// FNV-1a (Fowler, Noll, Vo): a fast 64-bit hash to distinguish
// values. It is not for secrets and does not resist an attacker.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace braid {

class Fnv1a {
 public:
  constexpr void add(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  // Least significant byte first.
  constexpr void add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) add(static_cast<std::uint8_t>(number >> (8 * byte)));
  }
  void add(ByteView bytes) {
    for (const std::byte byte : bytes) add(std::to_integer<std::uint8_t>(byte));
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace braid
