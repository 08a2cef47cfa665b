// Bytes as OpenSSL wants them. Included by this folder's source files alone.
#pragma once

#include <cstddef>

namespace braid::stack {

inline const unsigned char* raw(const std::byte* p) {
  return reinterpret_cast<const unsigned char*>(p);
}
inline unsigned char* raw(std::byte* p) {
  return reinterpret_cast<unsigned char*>(p);
}

}  // namespace braid::stack
