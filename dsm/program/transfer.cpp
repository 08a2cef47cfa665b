// Transfers between shared memory and files by the names of dsm/api.h, and pages fetched in advance.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "dsm/api.h"
#include "dsm/engine/types.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"

namespace braid::dsm {

namespace {

template <class Touch>
void touch_pages(const void* memory, std::size_t bytes, Touch&& touch) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const char*>(memory);
  const auto* const last = first + bytes - 1;
  // The first byte of each page of the range.
  const PageLength length = page_length();
  const std::size_t to_next_page =
      length.bytes() - length.offset_in_page(reinterpret_cast<std::uintptr_t>(first));
  touch(first);
  for (const char* p = first + to_next_page; p <= last; p += length.bytes()) touch(p);
}

constexpr std::size_t kCopiedTogether = 64 * 1024;

// Those of `count` pages, which are at `address` and behind it, that have bytes of the range.
void prefetch_window(Host& host, unsigned local, std::uintptr_t address, std::uint32_t count,
                     const void* memory, std::size_t bytes) {
  const std::uintptr_t window_end = address + page_length().bytes_of(count);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  if (begin >= window_end) return;
  const std::uintptr_t first = std::max(begin, address);
  const std::uintptr_t end = bytes > window_end - begin ? window_end : begin + bytes;
  if (first >= end) return;
  const std::uint32_t page = page_of(first).value();
  host.prefetch(local, PageId(page), page_of(end - 1).value() - page + 1);
}

// The shared pages among those of the range: of the program's globals, and of the heap's allocated part.
void prefetch_pages(Host& host, unsigned local, const void* memory, std::size_t bytes) {
  const GlobalsWindow& globals = globals_window();
  const std::uint32_t allocated = host.shape().heap_pages - host.free_pages();
  if (globals.pages != 0) prefetch_window(host, local, globals.address, globals.pages, memory, bytes);
  if (allocated > globals.pages)
    prefetch_window(host, local, kHeapAddress, allocated - globals.pages, memory, bytes);
}

unsigned prefetching_node(Host& host, const char* call) {
  const int local = host.current_node();
  if (local < 0)
    fail("{} was called by a thread that is neither the initial thread nor a compute node", call);
  return static_cast<unsigned>(local);
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

void prefetch(const void* memory, std::size_t bytes) {
  Host& host = joined_host("prefetch()");
  const unsigned local = prefetching_node(host, "prefetch()");
  prefetch_pages(host, local, memory, bytes);
}

void copy(void* to, const void* from, std::size_t bytes) {
  Host& host = joined_host("copy()");
  const unsigned local = prefetching_node(host, "copy()");
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  const auto distance = reinterpret_cast<std::uintptr_t>(target) - reinterpret_cast<std::uintptr_t>(source);
  if (bytes != 0 && (distance < bytes || -distance < bytes))
    fail("copy() was called for {} bytes from {} to {}, which overlap", bytes, from, to);
  prefetch_pages(host, local, source, std::min(bytes, kCopiedTogether));
  while (bytes != 0) {
    const std::size_t now = std::min(bytes, kCopiedTogether);
    prefetch_pages(host, local, target, now);
    // The following part is on its way while this one is copied.
    prefetch_pages(host, local, source + now, std::min(bytes - now, kCopiedTogether));
    std::memcpy(target, source, now);
    target += now;
    source += now;
    bytes -= now;
  }
}

}  // namespace braid::dsm
