#include "dsm/once/early_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/system_error.h"
#include "dsm/api.h"
#include "dsm/once/host.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"

namespace braid::dsm {

void EarlyHeap::open() {
  heap_bytes_ = once::heap_bytes_to_come();
  // Of which the program's globals may have the first part.
  const std::size_t globals = page_length().bytes_of(globals_window().pages);
  if (globals >= heap_bytes_) fail_for_large_globals(heap_bytes_, once::heap_setting());
  heap_bytes_ -= globals;
  const Result<std::byte*> memory = map_heap_addresses({.bytes = heap_bytes_,
                                                        .protection = PROT_READ | PROT_WRITE,
                                                        .flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                                        .setting = once::heap_setting()});
  if (!memory) fail_with_text(memory.error());
  memory_ = *memory;
}

void* EarlyHeap::allocate(std::size_t bytes) {
  if (memory_ == nullptr) open();
  const std::size_t at =
      bytes >= page_length().bytes() ? page_length().round_up(used_) : (used_ + 15) / 16 * 16;
  if (at > heap_bytes_ || bytes > heap_bytes_ - at)
    fail(
        "the shared heap of {} MiB is full: {} bytes were requested, {} are free; raise {} (`braid run --help` tells the option)",
        heap_bytes_ >> 20, bytes, heap_bytes_ - std::min(used_, heap_bytes_), once::heap_setting());
  used_ = at + bytes;
  once::note_early_allocation(memory_ + at, bytes);
  return memory_ + at;
}

bool EarlyHeap::has(const void* address) const {
  return reinterpret_cast<std::uintptr_t>(address) - kHeapAddress < used_;
}

void EarlyHeap::close() {
  if (memory_ == nullptr) return;
  const std::size_t kept = page_length().round_up(used_);
  std::byte* const from = memory_;
  memory_ = nullptr;
  if (kept > 0) {
    void* const room = ::mmap(nullptr, kept, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED || ::mremap(from, kept, kept, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room)
      fail("cannot move {} bytes of shared memory: {}", kept, cause_and_cure(errno).c_str());
    memory_ = static_cast<std::byte*>(room);
  }
  if (kept < heap_bytes_) ::munmap(from + kept, heap_bytes_ - kept);
}

void EarlyHeap::publish() {
  if (used_ == 0) return;
  const std::size_t kept = page_length().round_up(used_);
  void* const place = allocate_bytes(kept, Placement::first_touch());
  CHECK(place == application_address(PageId(globals_window().pages)));
  joined_host("EarlyHeap::publish()").fill(page_of(kHeapAddress), std::span<const std::byte>(memory_, kept));
  ::munmap(memory_, kept);
  memory_ = nullptr;
}

}  // namespace braid::dsm
