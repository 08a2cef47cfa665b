// System calls on shared memory, through private memory: the kernel does not wait for a page,
// and another cluster's write could always take a page away between preparation and call.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dsm/api.h"
#include "dsm/engine/types.h"
#include "dsm/program/failure.h"

namespace braid::dsm {

namespace {

// On the caller's stack: large enough that the copies, not the calls, take most of the time.
constexpr std::size_t kChunkBytes = 64u << 10;
using Chunk = std::array<char, kChunkBytes>;

bool has_more(int fd) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0 && (watched.revents & POLLIN) != 0;
}

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

std::size_t product(const char* call, std::size_t size, std::size_t count) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes))
    fail("{} was called for {} elements of {} bytes: that exceeds the address space", call, count, size);
  return bytes;
}

}  // namespace

ssize_t read(int fd, void* buffer, std::size_t bytes) {
  Chunk chunk;
  std::size_t taken = 0;
  do {
    const std::size_t wanted = std::min(bytes - taken, chunk.size());
    const ssize_t n = ::read(fd, chunk.data(), wanted);
    if (n < 0) return taken > 0 ? static_cast<ssize_t>(taken) : n;
    std::memcpy(static_cast<char*>(buffer) + taken, chunk.data(), static_cast<std::size_t>(n));
    taken += static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < wanted) break;
    // read(2) would not wait for more.
  } while (taken < bytes && has_more(fd));
  return static_cast<ssize_t>(taken);
}

ssize_t write(int fd, const void* buffer, std::size_t bytes) {
  Chunk chunk;
  std::size_t given = 0;
  do {
    const std::size_t wanted = std::min(bytes - given, chunk.size());
    std::memcpy(chunk.data(), static_cast<const char*>(buffer) + given, wanted);
    const ssize_t n = ::write(fd, chunk.data(), wanted);
    if (n < 0) return given > 0 ? static_cast<ssize_t>(given) : n;
    given += static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < wanted) break;
  } while (given < bytes);
  return static_cast<ssize_t>(given);
}

std::size_t fread(void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  if (size == 0) return 0;
  Chunk chunk;
  const std::size_t bytes = product("fread()", size, count);
  std::size_t taken = 0;
  while (taken < bytes) {
    const std::size_t wanted = std::min(bytes - taken, chunk.size());
    const std::size_t n = std::fread(chunk.data(), 1, wanted, file);
    std::memcpy(static_cast<char*>(buffer) + taken, chunk.data(), n);
    taken += n;
    if (n < wanted) break;
  }
  return taken / size;
}

std::size_t fwrite(const void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  if (size == 0) return 0;
  Chunk chunk;
  const std::size_t bytes = product("fwrite()", size, count);
  std::size_t given = 0;
  while (given < bytes) {
    const std::size_t wanted = std::min(bytes - given, chunk.size());
    std::memcpy(chunk.data(), static_cast<const char*>(buffer) + given, wanted);
    const std::size_t n = std::fwrite(chunk.data(), 1, wanted, file);
    given += n;
    if (n < wanted) break;
  }
  return given / size;
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
