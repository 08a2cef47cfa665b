// A set of clusters with a bit for each cluster of the machine: for the few sets that a whole node or engine has. For a
// set for each of very many things see dsm/engine/cluster_sets.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace braid {

class ClusterBits {
 public:
  // Room for clusters 0 .. clusters - 1. Allocates; nothing else does but copying.
  explicit ClusterBits(std::size_t clusters = 0) : words_((clusters + kBits - 1) / kBits) {}

  bool contains(ClusterId c) const { return (words_[c.value() / kBits] >> c.value() % kBits & 1) != 0; }
  void add(ClusterId c) {
    std::uint64_t& word = words_[c.value() / kBits];
    size_ += (word & bit(c)) == 0;
    word |= bit(c);
  }
  void remove(ClusterId c) {
    std::uint64_t& word = words_[c.value() / kBits];
    size_ -= (word & bit(c)) != 0;
    word &= ~bit(c);
  }
  void clear() {
    std::ranges::fill(words_, 0);
    size_ = 0;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Calls use(cluster) for each, in the order of their numbers. `use` may remove that cluster.
  template <class Use>
  void for_each(Use&& use) const {
    if (!empty())
      for_each_in(
          words_.size(), [this](std::size_t i) { return words_[i]; }, use);
  }
  // The same for those of either set. Both are of the same machine.
  template <class Use>
  static void for_each_of_either(const ClusterBits& a, const ClusterBits& b, Use&& use) {
    for_each_in(
        a.words_.size(), [&](std::size_t i) { return a.words_[i] | b.words_[i]; }, use);
  }
  // Cluster c is bit c % 64 of word c / 64.
  std::span<const std::uint64_t> words() const { return words_; }

 private:
  static constexpr unsigned kBits = 64;
  static std::uint64_t bit(ClusterId c) { return std::uint64_t{1} << c.value() % kBits; }
  template <class Word, class Use>
  static void for_each_in(std::size_t words, Word&& word, Use& use) {
    for (std::size_t i = 0; i < words; ++i) {
      for (std::uint64_t left = word(i); left != 0; left &= left - 1)
        use(ClusterId(
            static_cast<std::uint16_t>(i * kBits + static_cast<std::size_t>(std::countr_zero(left)))));
    }
  }

  std::vector<std::uint64_t> words_;
  std::size_t size_ = 0;
};

}  // namespace braid
