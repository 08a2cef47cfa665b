// Counts what a test binary allocates while it says so. Replaces the global operator new, so exactly one
// source of the binary includes it; the sanitizers bring their own.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace braid::test {

inline bool counting_allocations = false;
inline std::size_t allocations = 0;

}  // namespace braid::test

// Every other form of new ends here. Not inlined, or g++ takes new and free for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (braid::test::counting_allocations) ++braid::test::allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
