// Bytes as published vectors write them.
#pragma once

#include <string>
#include <string_view>

#include "stack/secure/raw_bytes.h"
#include "wire_bytes.h"

namespace braid::stack {

inline Bytes from_hex(std::string_view text) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return out;
}
inline KeyBytes key_from_hex(std::string_view text) {
  const Bytes bytes = from_hex(text);
  KeyBytes key{};
  CHECK_EQ(bytes.size(), key.size());
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}
inline std::string to_hex(ByteView bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned>(b) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned>(b) & 15];
  }
  return out;
}

}  // namespace braid::stack
