// Places of the program that call the runtime: for each the calls that led here, found quickly where they were found before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace braid::sim {

// Walking a stack takes two microseconds. What leads to an address of return on the stack has the same frame each time, so a
// walk need not be done again while all addresses of return are where the last one found them.
class CallPlaces {
 public:
  static constexpr std::size_t kCalls = 8;
  // Finds the number of a place by the addresses inside its calling instructions, the innermost first.
  using Find = std::uint32_t (*)(void* self, std::span<const std::uintptr_t> calls);

  // The number of the place that calls. Any stack.
  std::uint32_t here(Find find, void* self);

 private:
  // Walks are few where a program's loop has no more calls than this.
  static constexpr std::size_t kKnown = 16;
  struct Walk {
    std::size_t depth = 0;
    std::array<std::uintptr_t, kCalls> returns{};
    std::array<std::size_t, kCalls> slots{};  // of the addresses of return, in words from the frame of here()
    std::uint32_t place = 0;
  };
  static bool is_as_before(const Walk& walk, const std::uintptr_t* frame);
  static Walk walk_from(const std::uintptr_t* frame);

  std::array<Walk, kKnown> known_;  // the one that was used last is the first
};

}  // namespace braid::sim
