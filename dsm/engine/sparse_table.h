// A table by number, nearly all of whose entries are in their initial state: only the others take room. For objects that
// programs name by addresses (object_names.h).
//
// Open addressing with linear probing: an entry is at the first free slot from its number's own slot on, and a removal
// closes the gap, so that a search ends at the first free slot. The table grows to twice its size and never shrinks. It grows by
// mappings, for messages are handled in page faults, too, where nothing may call the program's allocator.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace braid::dsm {

// Memory from the kernel, zeroed.
template <class T>
struct MappedAllocator {
  using value_type = T;
  MappedAllocator() = default;
  template <class Other>
  MappedAllocator(const MappedAllocator<Other>&) {}  // NOLINT
  T* allocate(std::size_t count) {
    void* const memory =
        ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) { ::munmap(memory, count * sizeof(T)); }
  bool operator==(const MappedAllocator&) const = default;
};

// One owner. `T` is small and can be copied.
template <class T>
class SparseTable {
 public:
  // No entry has this number.
  static constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

  // `slots`: a power of two; mapped at the first entry if it is 0.
  explicit SparseTable(std::size_t slots = 0) : first_(slots) {}

  std::size_t size() const { return used_; }

  // nullptr: there is none, so it is in its initial state. Valid until the next add() or remove().
  T* find(std::uint32_t number) {
    if (used_ == 0) return nullptr;
    Slot& slot = slots()[slot_of(number)];
    return slot.number == number ? &slot.value : nullptr;
  }
  const T* find(std::uint32_t number) const { return const_cast<SparseTable*>(this)->find(number); }

  // There is none with this number. Valid until the next add() or remove().
  T& add(std::uint32_t number, const T& value) {
    CHECK_NE(number, kNoNumber);
    if ((used_ + 1) * 5 > slots().size() * 3) grow();
    Slot& slot = slots()[slot_of(number)];
    CHECK_EQ(slot.number, kNoNumber);
    slot = {number, value};
    ++used_;
    return slot.value;
  }

  // There is one.
  void remove(std::uint32_t number) {
    std::size_t gap = slot_of(number);
    CHECK_EQ(slots()[gap].number, number);
    for (std::size_t at = next(gap); slots()[at].number != kNoNumber; at = next(at)) {
      // An entry may fill the gap unless its own slot lies behind the gap.
      if (distance(own_slot(slots()[at].number), at) < distance(gap, at)) continue;
      slots()[gap] = slots()[at];
      gap = at;
    }
    slots()[gap] = {};
    --used_;
  }

  // Calls use(number, value) for each, in no order.
  template <class Use>
  void for_each(Use&& use) const {
    for (const Slot& slot : slots())
      if (slot.number != kNoNumber) use(slot.number, slot.value);
  }
  // The numbers of all, ascending. Allocates.
  std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    for_each([&](std::uint32_t number, const T&) { all.push_back(number); });
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  struct Slot {
    std::uint32_t number = kNoNumber;
    T value{};
  };
  using Mapped = std::vector<Slot, MappedAllocator<Slot>>;
  static constexpr std::size_t kFirstSlots = 64;

  // Multiplicative: neighbours lie apart.
  std::size_t own_slot(std::uint32_t number) const {
    return (number * 0x9e37'79b9'7f4a'7c15u >> 32) & (slots().size() - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots().size() - 1); }
  std::size_t distance(std::size_t from, std::size_t to) const { return (to - from) & (slots().size() - 1); }
  std::size_t slot_of(std::uint32_t number) const {
    std::size_t at = own_slot(number);
    while (slots()[at].number != number && slots()[at].number != kNoNumber) at = next(at);
    return at;
  }
  void grow() {
    Mapped wider(slots().empty() ? kFirstSlots : slots().size() * 2);
    const std::span<const Slot> old = slots();
    grown_.swap(wider);  // `old` is in `wider` now, or in first_
    for (const Slot& slot : old)
      if (slot.number != kNoNumber) grown_[slot_of(slot.number)] = slot;
  }

  // Those in use: the wider ones, once there are any.
  std::span<Slot> slots() { return grown_.empty() ? std::span<Slot>(first_) : std::span<Slot>(grown_); }
  std::span<const Slot> slots() const {
    return grown_.empty() ? std::span<const Slot>(first_) : std::span<const Slot>(grown_);
  }

  std::vector<Slot> first_;  // kept: freeing it would call the allocator
  Mapped grown_;
  std::size_t used_ = 0;
};

}  // namespace braid::dsm
