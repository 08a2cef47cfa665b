// The addresses of shared memory: the same in every cluster, so that pointers are valid in all of them. The heap's first pages
// have those of the program's globals where these are shared (dsm/program/globals.h), all others one range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/result.h"
#include "dsm/engine/types.h"
#include "dsm/program/globals.h"
#include "dsm/program/page_length.h"

namespace braid::dsm {

// An address that the kernel's own placement, and the shadow memory of AddressSanitizer and ThreadSanitizer,
// leave free.
inline constexpr std::uintptr_t kHeapAddress = 0x7e90'0000'0000;

// The address of `page` for compute nodes.
inline void* application_address(PageId page) {
  const GlobalsWindow& globals = globals_window();
  const PageLength length = page_length();
  const std::uintptr_t address = page.value() < globals.pages
                                     ? globals.address + length.bytes_of(page.value())
                                     : kHeapAddress + length.bytes_of(page.value() - globals.pages);
  return reinterpret_cast<void*>(address);  // NOLINT
}

// Whether `address` is of the program's globals, and these are made to be shared.
inline bool in_globals(std::uintptr_t address) {
  const GlobalsWindow& globals = globals_window();
  return address - globals.address < page_length().bytes_of(globals.pages);
}
// Whether `address` is in a heap of `pages` pages, and in which one. Globals are counted among the pages.
inline bool in_heap(std::uintptr_t address, std::uint32_t pages) {
  const std::uint32_t globals = globals_window().pages;
  return address - kHeapAddress < page_length().bytes_of(pages > globals ? pages - globals : 0) ||
         in_globals(address);
}
inline PageId page_of(std::uintptr_t address) {
  const GlobalsWindow& globals = globals_window();
  const std::uintptr_t page = in_globals(address)
                                  ? page_length().pages_in(address - globals.address)
                                  : globals.pages + page_length().pages_in(address - kHeapAddress);
  return PageId(static_cast<std::uint32_t>(page));
}

// A mapping at the heap's addresses from kHeapAddress on, in mmap()'s terms.
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
