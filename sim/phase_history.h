// The page protocol's messages by kind and by phase of the program: a phase ends at a barrier. A bounded number of
// entries: when all are used, pairs are merged, and each stands for twice as many phases.
//
//   phases      0  1  2  3  4  5        width 2: three entries of two phases each
//   entries    | 0  | 1  | 2  |
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "dsm/engine/types.h"

namespace braid::sim {

class PhaseHistory {
 public:
  using Counts = std::array<std::uint64_t, dsm::kSentNames.size()>;
  static constexpr std::size_t kEntries = 64;

  // So many messages of this kind (its place in dsm::kSentNames) were sent in that phase, counted from 0.
  void add(std::uint64_t phase, std::size_t kind, std::uint64_t messages) {
    while (phase >> width_log2_ >= kEntries) widen();
    const auto at = static_cast<std::size_t>(phase >> width_log2_);
    if (at >= entries_.size()) entries_.resize(at + 1);
    entries_[at][kind] += messages;
  }
  // The sum of both.
  void add(const PhaseHistory& other) {
    while (width_log2_ < other.width_log2_) widen();
    for (std::size_t i = 0; i < other.entries_.size(); ++i) {
      for (std::size_t kind = 0; kind < other.entries_[i].size(); ++kind)
        add(std::uint64_t{i} << other.width_log2_, kind, other.entries_[i][kind]);
    }
  }

  std::uint64_t phases_each() const { return std::uint64_t{1} << width_log2_; }
  const std::vector<Counts>& entries() const { return entries_; }

 private:
  void widen() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Counts& into = entries_[i / 2];
      if (i % 2 == 0) {
        const Counts moved = entries_[i];
        into = moved;
      } else {
        for (std::size_t kind = 0; kind < into.size(); ++kind) into[kind] += entries_[i][kind];
      }
    }
    entries_.resize((entries_.size() + 1) / 2);
    ++width_log2_;
  }

  std::vector<Counts> entries_;
  unsigned width_log2_ = 0;
};

}  // namespace braid::sim
