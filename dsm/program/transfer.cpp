// Transfers between shared memory and files by the names of dsm/api.h, and pages fetched in advance.
#include <unistd.h>

#include <cstdio>

#include "dsm/api.h"
#include "dsm/engine/types.h"
#include "dsm/program/failure.h"

namespace braid::dsm {

namespace {

template <class Touch>
void touch_pages(const void* memory, std::size_t bytes, Touch&& touch) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const char*>(memory);
  const auto* const last = first + bytes - 1;
  // The first byte of each page of the range.
  const std::size_t to_next_page = kPageBytes - reinterpret_cast<std::uintptr_t>(first) % kPageBytes;
  touch(first);
  for (const char* p = first + to_next_page; p <= last; p += kPageBytes) touch(p);
}

void check_product(const char* call, std::size_t size, std::size_t count) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes))
    fail("{} was called for {} elements of {} bytes: that exceeds the address space", call, count, size);
}

}  // namespace

ssize_t read(int fd, void* buffer, std::size_t bytes) {
  return ::read(fd, buffer, bytes);
}

ssize_t write(int fd, const void* buffer, std::size_t bytes) {
  return ::write(fd, buffer, bytes);
}

std::size_t fread(void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  check_product("fread()", size, count);
  return std::fread(buffer, size, count, file);
}

std::size_t fwrite(const void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  check_product("fwrite()", size, count);
  return std::fwrite(buffer, size, count, file);
}

void prepare_read(const void* memory, std::size_t bytes) {
  touch_pages(memory, bytes, [](const char* p) { (void)*static_cast<const volatile char*>(p); });
}

void prepare_write(void* memory, std::size_t bytes) {
  // A write that changes nothing, even if another node writes the same byte now.
  touch_pages(memory, bytes,
              [](const char* p) { __atomic_fetch_or(const_cast<char*>(p), 0, __ATOMIC_RELAXED); });
}

}  // namespace braid::dsm
