// operator new and delete of the program and of the C++ library, which allocates for it. The runtime has others (memory.cpp).
// Always linked, by braid_pthreads_new_is_linked: a library that has them too may come before. Weak, for a program may have its own.
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "dsm/pthreads/wrapped.h"

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    if (void* const memory = braid_pthreads_new(bytes, alignment)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

[[gnu::weak]] void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
[[gnu::weak]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::weak]] void operator delete(void* memory) noexcept {
  braid_pthreads_delete(memory);
}
[[gnu::weak]] void operator delete(void* memory, std::align_val_t) noexcept {
  braid_pthreads_delete(memory);
}
[[gnu::weak]] void operator delete(void* memory, std::size_t) noexcept {
  ::operator delete(memory);
}
[[gnu::weak]] void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete(memory, alignment);
}

// Exceptions: std::exception_ptr, and so std::future, takes them to other threads. Thrown by the C++ library, too.
extern "C" {

extern const char braid_pthreads_new_is_linked;
const char braid_pthreads_new_is_linked = 1;

// Of the C++ library, before each exception (sizeof(__cxxabiv1::__cxa_refcounted_exception)).
constexpr std::size_t kExceptionHeaderBytes = 128;

void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  auto* const block = static_cast<char*>(braid_pthreads_new(bytes + kExceptionHeaderBytes, 16));
  if (block == nullptr) std::terminate();
  std::memset(block, 0, kExceptionHeaderBytes);
  return block + kExceptionHeaderBytes;
}

void __cxa_free_exception(void* exception) noexcept {
  braid_pthreads_delete(static_cast<char*>(exception) - kExceptionHeaderBytes);
}

}  // extern "C"
