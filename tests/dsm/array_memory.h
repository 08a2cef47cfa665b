// The pages of a cluster as arrays, for engines without hardware.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/check.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// Pages in arrays. The test enforces the protections, in place of the hardware.
class ArrayMemory : public PageMemory {
 public:
  explicit ArrayMemory(std::uint32_t pages, PageLength length = PageLength())
      : length_(length), bytes_(length.bytes_of(pages)), access_(pages, Access::kNone) {}
  void protect(PageId first, std::uint32_t count, Access access) override {
    CHECK_LE(first.value() + count, access_.size());
    ++protect_calls;
    if (on_protect) on_protect(first.value(), count, access);
    for (std::uint32_t i = first.value(); i < first.value() + count; ++i) access_[i] = access;
  }
  std::byte* page(PageId page) override { return &bytes_[length_.bytes_of(page.value())]; }
  Access access(std::uint32_t page) const { return access_[page]; }
  std::byte& at(std::size_t address) { return bytes_[address]; }

  int protect_calls = 0;
  // Stands for a sibling thread; called just before a page's permission changes.
  std::function<void(std::uint32_t first, std::uint32_t count, Access access)> on_protect;

 private:
  const PageLength length_;
  std::vector<std::byte> bytes_;
  std::vector<Access> access_;
};

}  // namespace braid::dsm
