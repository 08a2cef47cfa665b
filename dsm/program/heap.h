// The address of shared memory: the same in every
// cluster, so that pointers are valid in all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/result.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// An address that the kernel's own placement, and the shadow memory of AddressSanitizer and ThreadSanitizer,
// leave free.
inline constexpr std::uintptr_t kHeapAddress = 0x7e90'0000'0000;

// The address of `page` for compute nodes.
inline void* application_address(PageId page) {
  return reinterpret_cast<void*>(kHeapAddress + std::uintptr_t{page.value()} * kPageBytes);  // NOLINT
}

// Whether `address` is in a heap of `pages` pages, and in which one.
inline bool in_heap(std::uintptr_t address, std::uint32_t pages) {
  return address - kHeapAddress < std::uintptr_t{pages} * kPageBytes;
}
inline PageId page_of(std::uintptr_t address) {
  return PageId(static_cast<std::uint32_t>((address - kHeapAddress) / kPageBytes));
}

// A mapping at the heap's addresses, in mmap()'s terms.
struct HeapMapping {
  std::size_t bytes = 0;
  int protection = 0;
  int flags = 0;
  int file = -1;
  std::size_t offset = 0;
  const char* setting = "";  // that has the heap's size, for messages: "BRAID_HEAP_MIB"
};
// An error names what has the addresses, or the cause and the setting to lower.
Result<std::byte*> map_heap_addresses(const HeapMapping& mapping);
Error heap_mapping_failed(std::size_t bytes, int error_number, const char* setting);

// In mprotect()'s terms.
int protection_bits(Access access);
// Ends the process with a message: mprotect() of pages of the shared heap
// failed with this error. `other_way`: what else helps at the kernel's limit
// of mappings, as the end of a sentence; may be empty. Allocates nothing.
[[noreturn]] void mprotect_failed(int error_number, PageId first, std::uint32_t count, const char* other_way);

}  // namespace braid::dsm
