// Buffers of bytes that pass through this process, a run's secret perhaps among them. What is freed is overwritten by itself
// (wiped_heap.cpp).
#pragma once

#include <string.h>

#include <cstddef>
#include <string>

namespace braid::cli {

// Removes the first `count` bytes, and overwrites what that leaves behind the new end.
inline void forget_front(std::string& text, std::size_t count) {
  text.erase(0, count);
  text.append(count, '\0');  // where the last ones were
  text.resize(text.size() - count);
}

template <std::size_t Size>
void forget(char (&bytes)[Size]) {
  ::explicit_bzero(bytes, Size);
}

}  // namespace braid::cli
