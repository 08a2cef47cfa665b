// The shared heap of one cluster: one memfd mapped twice.
//
//   application view   kHeapAddress, the same in every cluster   protections as the page protocol says;
//   compute nodes alias view         anywhere                                  always readable and writable;
//   the runtime alone
//
// A page is filled through the alias before any compute node may see it, so nobody reads half a page.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "dsm/engine/engine.h"

namespace braid::dsm {

// An address that the kernel's own placement, and the shadow memory of AddressSanitizer and ThreadSanitizer,
// leave free.
inline constexpr std::uintptr_t kHeapAddress = 0x7e90'0000'0000;

class Memory final : public PageMemory {
 public:
  // The application view starts inaccessible.
  static Result<Memory> make(std::uint32_t pages);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory() override;

  // Ends the process with a message when the kernel cannot keep so many different protections apart: the
  // program cannot go on, and the fault that asked for it cannot be refused. Allocates nothing.
  void protect(PageId first, std::uint32_t count, Access access) override;
  std::byte* page(PageId page) override { return alias_ + page.value() * kPageBytes; }

  std::uint32_t pages() const { return pages_; }
  bool contains(std::uintptr_t address) const {
    return address - kHeapAddress < std::uintptr_t{pages_} * kPageBytes;
  }
  static PageId page_of(std::uintptr_t address) {
    return PageId(static_cast<std::uint32_t>((address - kHeapAddress) / kPageBytes));
  }
  // Where compute nodes see `page`.
  static void* application_address(PageId page) {
    return reinterpret_cast<void*>(kHeapAddress + std::uintptr_t{page.value()} * kPageBytes);  // NOLINT
  }

 private:
  Memory(std::byte* alias, std::uint32_t pages) : alias_(alias), pages_(pages) {}
  std::byte* alias_ = nullptr;
  std::uint32_t pages_ = 0;
};

}  // namespace braid::dsm
