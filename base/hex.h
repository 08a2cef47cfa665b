// Bytes as hexadecimal digits, as files of keys and secrets hold them.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/bytes.h"

namespace braid {

// Writes two small digits for each byte; returns their end.
inline char* write_hex(ByteView bytes, char* to) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::byte b : bytes) {
    *to++ = kDigits[std::to_integer<unsigned>(b) >> 4];
    *to++ = kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return to;
}

// -1: none.
constexpr int value_of_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// False: they are not two digits for each byte, small or large; then what was written means nothing.
[[nodiscard]] inline bool read_hex(std::string_view digits, MutableBytes to) {
  if (digits.size() != 2 * to.size()) return false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const int high = value_of_digit(digits[2 * i]), low = value_of_digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    to[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

}  // namespace braid
