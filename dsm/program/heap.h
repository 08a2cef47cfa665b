// Where a program sees its shared memory: at the same address in every cluster, so that pointers mean the
// same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// An address that the kernel's own placement, and the shadow memory of AddressSanitizer and ThreadSanitizer,
// leave free.
inline constexpr std::uintptr_t kHeapAddress = 0x7e90'0000'0000;

// Where compute nodes see `page`.
inline void* application_address(PageId page) {
  return reinterpret_cast<void*>(kHeapAddress + std::uintptr_t{page.value()} * kPageBytes);  // NOLINT
}

// Whether `address` lies in a heap of `pages`, and in which page of it.
inline bool in_heap(std::uintptr_t address, std::uint32_t pages) {
  return address - kHeapAddress < std::uintptr_t{pages} * kPageBytes;
}
inline PageId page_of(std::uintptr_t address) {
  return PageId(static_cast<std::uint32_t>((address - kHeapAddress) / kPageBytes));
}

// As mprotect() takes it.
int protection_bits(Access access);
// Ends the process with a message: mprotect() of pages of the shared heap failed with this error, and the
// program cannot continue. `other_way` is what else helps at the kernel's limit of mappings: words that end the
// sentence, or none. Allocates nothing.
[[noreturn]] void mprotect_failed(int error_number, PageId first, std::uint32_t count, const char* other_way);

}  // namespace braid::dsm
