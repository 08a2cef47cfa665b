// A table by number, nearly all of whose entries are in their initial state: only the others take room. For objects that
// programs name by addresses (object_names.h).
//
// Open addressing with linear probing: an entry is at the first free slot from its number's own slot on, and a removal
// closes the gap, so that a search ends at the first free slot. The table grows to twice its size and never shrinks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace braid::dsm {

// One owner. `T` is small and can be copied.
template <class T>
class SparseTable {
 public:
  // No entry has this number.
  static constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

  // `slots`: a power of two; allocated at the first entry if it is 0.
  explicit SparseTable(std::size_t slots = 0) : slots_(slots) {}

  std::size_t size() const { return used_; }

  // nullptr: there is none, so it is in its initial state. Valid until the next add() or remove().
  T* find(std::uint32_t number) {
    if (used_ == 0) return nullptr;
    Slot& slot = slots_[slot_of(number)];
    return slot.number == number ? &slot.value : nullptr;
  }
  const T* find(std::uint32_t number) const { return const_cast<SparseTable*>(this)->find(number); }

  // There is none with this number. Valid until the next add() or remove().
  T& add(std::uint32_t number, const T& value) {
    CHECK_NE(number, kNoNumber);
    if ((used_ + 1) * 5 > slots_.size() * 3) grow();
    Slot& slot = slots_[slot_of(number)];
    CHECK_EQ(slot.number, kNoNumber);
    slot = {number, value};
    ++used_;
    return slot.value;
  }

  // There is one.
  void remove(std::uint32_t number) {
    std::size_t gap = slot_of(number);
    CHECK_EQ(slots_[gap].number, number);
    for (std::size_t at = next(gap); slots_[at].number != kNoNumber; at = next(at)) {
      // An entry may fill the gap unless its own slot lies behind the gap.
      if (distance(own_slot(slots_[at].number), at) < distance(gap, at)) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = {};
    --used_;
  }

  // Calls use(number, value) for each, in no order.
  template <class Use>
  void for_each(Use&& use) const {
    for (const Slot& slot : slots_)
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
  static constexpr std::size_t kFirstSlots = 64;

  // Multiplicative: neighbours lie apart.
  std::size_t own_slot(std::uint32_t number) const {
    return (number * 0x9e37'79b9'7f4a'7c15u >> 32) & (slots_.size() - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }
  std::size_t distance(std::size_t from, std::size_t to) const { return (to - from) & (slots_.size() - 1); }
  std::size_t slot_of(std::uint32_t number) const {
    std::size_t at = own_slot(number);
    while (slots_[at].number != number && slots_[at].number != kNoNumber) at = next(at);
    return at;
  }
  void grow() {
    const std::vector<Slot> old =
        std::exchange(slots_, std::vector<Slot>(slots_.empty() ? kFirstSlots : slots_.size() * 2));
    for (const Slot& slot : old)
      if (slot.number != kNoNumber) slots_[slot_of(slot.number)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace braid::dsm
