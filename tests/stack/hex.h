// Bytes as published vectors write them.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/hex.h"
#include "stack/secure/raw_bytes.h"
#include "wire_bytes.h"

namespace braid::stack {

// An end of line behind the digits is none of them.
inline Bytes from_hex(std::string_view text) {
  Bytes out(text.size() / 2);
  CHECK(read_hex(text.substr(0, 2 * out.size()), out));
  return out;
}
inline KeyBytes key_from_hex(std::string_view text) {
  KeyBytes key{};
  CHECK(read_hex(text, key));
  return key;
}
inline std::string to_hex(ByteView bytes) {
  std::string out(2 * bytes.size(), ' ');
  write_hex(bytes, out.data());
  return out;
}

}  // namespace braid::stack
