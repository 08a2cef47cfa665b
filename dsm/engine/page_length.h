// The length of a page of shared memory: a value of a machine, the same in all of its clusters (PG-29). Kept as its
// logarithm, so that what depends on it costs a shift.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace braid::dsm {

class PageLength {
 public:
  static constexpr std::size_t kLeastBytes = 1024;
  static constexpr std::size_t kMostBytes = 64 * 1024;
  static constexpr bool valid(std::size_t bytes) {
    return bytes >= kLeastBytes && bytes <= kMostBytes && std::has_single_bit(bytes);
  }

  constexpr PageLength() = default;  // 4 KiB
  constexpr explicit PageLength(std::size_t bytes)
      : log2_(static_cast<std::uint8_t>(std::countr_zero(bytes))) {
    CHECK(valid(bytes));
  }

  constexpr std::size_t bytes() const { return std::size_t{1} << log2_; }
  // Of so many pages; where page number `pages` begins.
  constexpr std::size_t bytes_of(std::size_t pages) const { return pages << log2_; }
  // Whole pages in so many bytes; the page that has the byte at this place.
  constexpr std::size_t pages_in(std::size_t bytes) const { return bytes >> log2_; }
  // The place of a byte in its page.
  constexpr std::size_t offset_in_page(std::size_t place) const { return place & (bytes() - 1); }
  // Multiples of the length, at most and at least `bytes`.
  constexpr std::size_t round_down(std::size_t place) const { return place & ~(bytes() - 1); }
  constexpr std::size_t round_up(std::size_t place) const { return round_down(place + bytes() - 1); }
  // A byte mask of a page (diff.h).
  constexpr std::size_t mask_bytes() const { return bytes() / 8; }

  friend constexpr bool operator==(PageLength, PageLength) = default;

 private:
  std::uint8_t log2_ = 12;
};

}  // namespace braid::dsm
