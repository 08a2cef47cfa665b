// Sets of clusters, one or several for each of very many pages or locks, of which few have more than a few members. Such a
// set is one word; only a larger one takes bits for all clusters, from a pool, and gives them back when it is small again:
//
//       63   48 47   32 31   16 15    0
//      | id    | id    | id    | size  |      size 0 to 3; the ids in order, from the lowest bits on
//      | index         | -     | kLong |      a block of the pool: the size, and then a bit for each cluster
//
// So memory follows the members, not the machine. The pool's room is reserved in the constructor; the kernel provides it
// as it is used.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "base/zeroed_table.h"

namespace braid::dsm {

// Zero bytes are an empty set. Its ClusterSets changes it and enumerates it. A copy of a large one is
// the same set, not another one: use ClusterSets::copy(), and std::exchange() to move.
class ClusterSet {
 public:
  static constexpr std::size_t kInline = 3;

  // Both are empty, small with the same members, or the same large set.
  bool operator==(const ClusterSet&) const = default;
  bool empty() const { return word_ == 0; }
  // Its only member, if it has one.
  std::optional<ClusterId> single() const {
    if ((word_ & 0xffff) != 1) return std::nullopt;
    return ClusterId(static_cast<std::uint16_t>(word_ >> 16));
  }
  // It has this member and no other.
  bool is(ClusterId c) const { return word_ == (std::uint64_t{c.value()} << 16 | 1); }

 private:
  friend class ClusterSets;
  std::uint64_t word_ = 0;
};

class ClusterSets {
 public:
  // Sets of clusters 0 .. clusters - 1, of which at most `large` have more than kInline members at a time.
  ClusterSets(std::size_t clusters, std::size_t large)
      : block_words_(1 + (clusters + kBits - 1) / kBits),
        blocks_(clusters <= ClusterSet::kInline ? 0 : large),
        words_(blocks_ * block_words_) {}

  std::size_t size(ClusterSet s) const { return is_large(s) ? block(s)[0] : s.word_ & 0xffff; }
  bool contains(ClusterSet s, ClusterId c) const {
    if (is_large(s)) [[unlikely]]
      return (block(s)[1 + c.value() / kBits] >> c.value() % kBits & 1) != 0;
    const std::size_t size = s.word_ & 0xffff;
    for (std::size_t i = 0; i < size; ++i)
      if (member(s, i) == c.value()) return true;
    return false;
  }
  void add(ClusterSet& s, ClusterId c) {
    if (contains(s, c)) return;
    const std::size_t size = s.word_ & 0xffff;
    if (!is_large(s) && size < ClusterSet::kInline) return insert(s, c, size);
    if (!is_large(s)) make_large(s);
    put(s, c);
  }
  void remove(ClusterSet& s, ClusterId c) {
    if (!contains(s, c)) return;
    if (is_large(s)) {
      block(s)[1 + c.value() / kBits] &= ~(std::uint64_t{1} << c.value() % kBits);
      if (--block(s)[0] <= ClusterSet::kInline) make_small(s);
      return;
    }
    ClusterSet rest;
    for_each(s, [&](ClusterId other) {
      if (other != c) insert(rest, other, rest.word_ & 0xffff);
    });
    s = rest;
  }
  void clear(ClusterSet& s) {
    if (is_large(s)) give_back(s);
    s = {};
  }
  ClusterSet copy(ClusterSet s) {
    if (!is_large(s)) return s;
    ClusterSet other;
    for_each(s, [&](ClusterId c) { add(other, c); });
    return other;
  }
  // Calls use(cluster) for each, in the order of their numbers.
  template <class Use>
  void for_each(ClusterSet s, Use&& use) const {
    if (!is_large(s)) {
      const std::size_t size = s.word_ & 0xffff;
      for (std::size_t i = 0; i < size; ++i) use(ClusterId(member(s, i)));
      return;
    }
    const std::uint64_t* const words = block(s) + 1;
    for (std::size_t i = 0; i + 1 < block_words_; ++i) {
      for (std::uint64_t left = words[i]; left != 0; left &= left - 1)
        use(ClusterId(
            static_cast<std::uint16_t>(i * kBits + static_cast<std::size_t>(std::countr_zero(left)))));
    }
  }

  // The sets that have more than kInline members.
  std::size_t large() const { return used_ - free_; }
  // Bytes of the pool that have been used at some time.
  std::size_t pool_bytes() const { return used_ * block_words_ * sizeof(std::uint64_t); }

 private:
  static constexpr unsigned kBits = 64;
  static constexpr std::uint64_t kLong = 0xffff;

  static bool is_large(ClusterSet s) { return (s.word_ & 0xffff) == kLong; }
  static std::uint16_t member(ClusterSet s, std::size_t i) {
    return static_cast<std::uint16_t>(s.word_ >> (16 * (i + 1)));
  }
  std::uint64_t* block(ClusterSet s) { return &words_[(s.word_ >> 32) * block_words_]; }
  const std::uint64_t* block(ClusterSet s) const { return &words_[(s.word_ >> 32) * block_words_]; }

  // The set has room for one more, and not this one.
  static void insert(ClusterSet& s, ClusterId c, std::size_t size) {
    std::size_t at = 0;
    while (at < size && member(s, at) < c.value()) ++at;
    const unsigned shift = static_cast<unsigned>(16 * (at + 1));
    const std::uint64_t below = s.word_ & ((std::uint64_t{1} << shift) - 1);
    const std::uint64_t above = s.word_ >> shift << shift;
    s.word_ = (above << 16 | std::uint64_t{c.value()} << shift | below) + 1;
  }
  void put(ClusterSet s, ClusterId c) {
    block(s)[1 + c.value() / kBits] |= std::uint64_t{1} << c.value() % kBits;
    ++block(s)[0];
  }
  void make_large(ClusterSet& s) {
    std::uint64_t index = next_free_;
    if (free_ != 0) {
      next_free_ = words_[index * block_words_];
      words_[index * block_words_] = 0;
      --free_;
    } else {
      CHECK_LT(used_, blocks_);
      index = used_++;
    }
    ClusterSet large;
    large.word_ = index << 32 | kLong;
    for_each(s, [&](ClusterId c) { put(large, c); });
    s = large;
  }
  void make_small(ClusterSet& s) {
    ClusterSet small;
    for_each(s, [&](ClusterId c) { insert(small, c, small.word_ & 0xffff); });
    give_back(s);
    s = small;
  }
  // A free block is zeros, but for its first word: the next free one.
  void give_back(ClusterSet s) {
    std::uint64_t* const words = block(s);
    for (std::size_t i = 1; i < block_words_; ++i) words[i] = 0;
    words[0] = next_free_;
    next_free_ = s.word_ >> 32;
    ++free_;
  }

  const std::size_t block_words_;
  const std::size_t blocks_;
  ZeroedTable<std::uint64_t> words_;
  std::size_t used_ = 0;         // blocks that have been used at some time: the first ones
  std::size_t free_ = 0;         // of these, those that no set has
  std::uint64_t next_free_ = 0;  // one of them, if there are any
};

}  // namespace braid::dsm
