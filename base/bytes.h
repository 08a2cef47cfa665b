// Views of bytes, and integers of the wire's byte orders read from and written to them without alignment.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace braid {

using ByteView = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

static_assert(std::endian::native == std::endian::little, "the segment header is read in place");

template <std::unsigned_integral T>
constexpr T swapped(T v) {
  if constexpr (sizeof(T) == 1)
    return v;
  else if constexpr (sizeof(T) == 2)
    return __builtin_bswap16(v);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bswap32(v);
  else
    return __builtin_bswap64(v);
}

// Native (little-endian) order; the caller has checked that sizeof(T) bytes lie at p.
template <class T>
T load(const std::byte* p) {
  static_assert(std::is_trivially_copyable_v<T>);
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void store(std::byte* p, const T& v) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(p, &v, sizeof v);
}

// Network (big-endian) order, for the headers of the RFCs.
template <std::unsigned_integral T>
T load_be(const std::byte* p) {
  return swapped(load<T>(p));
}
template <std::unsigned_integral T>
void store_be(std::byte* p, T v) {
  store(p, swapped(v));
}

// Is [offset, offset + length) inside [0, size)? Safe for any values.
constexpr bool inside(std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
  return offset <= size && length <= size - offset;
}

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace braid
