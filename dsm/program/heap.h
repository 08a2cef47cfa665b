// The address of shared memory: the same in every
// cluster, so that pointers are valid in all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
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

// In mprotect()'s terms.
int protection_bits(Access access);
// Ends the process with a message: mprotect() of pages of the shared heap
// failed with this error. `other_way`: what else helps at the kernel's limit
// of mappings, as the end of a sentence; may be empty. Allocates nothing.
[[noreturn]] void mprotect_failed(int error_number, PageId first, std::uint32_t count, const char* other_way);

}  // namespace braid::dsm
