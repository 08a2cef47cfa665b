// Which numbers have been seen, of the newest 2048 (RFC 6479): each is taken once, in any order; older ones are not
// taken, because it is not known whether they were.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace braid::stack {

class ReplayWindow {
 public:
  static constexpr std::uint64_t kNumbers = 2048;

  // Not seen before, and not too old.
  bool is_new(std::uint64_t number) const {
    if (number >= end_) return true;
    if (end_ - number > kNumbers) return false;
    return (word(number) >> (number % 64) & 1) == 0;
  }
  // It is new, and is seen now.
  void mark(std::uint64_t number) {
    if (number >= end_) {
      const std::uint64_t first = end_;
      end_ = number + 1;
      if (end_ - first >= kNumbers)
        words_ = {};
      else
        for (std::uint64_t n = first; n < number; ++n) word(n) &= ~bit(n);
    }
    word(number) |= bit(number);
  }
  // The smallest number that may be taken still.
  std::uint64_t oldest() const { return end_ > kNumbers ? end_ - kNumbers : 0; }
  // Behind the largest that was seen.
  std::uint64_t end() const { return end_; }

 private:
  static std::uint64_t bit(std::uint64_t n) { return std::uint64_t{1} << (n % 64); }
  std::uint64_t& word(std::uint64_t n) { return words_[n / 64 % words_.size()]; }
  const std::uint64_t& word(std::uint64_t n) const { return words_[n / 64 % words_.size()]; }

  std::array<std::uint64_t, kNumbers / 64> words_{};
  std::uint64_t end_ = 0;
};

}  // namespace braid::stack
