// A set of compute nodes of a cluster, with a bit for each.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/limits.h"

namespace braid::dsm {

class NodeBits {
 public:
  bool empty() const { return size_ == 0; }
  void add(unsigned local) {
    std::uint64_t& word = words_[local / kBits];
    size_ += (word & bit(local)) == 0;
    word |= bit(local);
  }
  void remove(unsigned local) {
    std::uint64_t& word = words_[local / kBits];
    size_ -= (word & bit(local)) != 0;
    word &= ~bit(local);
  }
  // Calls use(local) for each, in the order of their numbers. `use` may remove that node.
  template <class Use>
  void for_each(Use&& use) const {
    if (empty()) return;
    for (unsigned i = 0; i < words_.size(); ++i) {
      for (std::uint64_t left = words_[i]; left != 0; left &= left - 1)
        use(i * kBits + static_cast<unsigned>(std::countr_zero(left)));
    }
  }

 private:
  static constexpr unsigned kBits = 64;
  static_assert(kMaxComputeNodes % kBits == 0);
  static std::uint64_t bit(unsigned local) { return std::uint64_t{1} << local % kBits; }

  std::array<std::uint64_t, kMaxComputeNodes / kBits> words_{};
  unsigned size_ = 0;
};

}  // namespace braid::dsm
