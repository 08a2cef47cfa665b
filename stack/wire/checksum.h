// The Internet checksum (RFC 1071): the ones'-complement sum of 16-bit words.
//
// A running sum is 64 bits wide and added with end-around carry, so every step keeps it right modulo 2^16 - 1
// and no length overflows it. Words are added in native order: the sum of byte-swapped words is the
// byte-swapped sum, so the folded result goes into a header with plain store(), and swapping it would be
// wrong.
//
// A sum is put together from views that each begin at an even offset of the message. So only the last view
// may have an odd length; it counts as if a zero byte followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace braid::stack {

// The verifier of an arriving packet's checksum.
enum class ChecksumBy : std::uint8_t {
  kSoftware,  // not verified yet: the parser does it
  kHardware,  // the NIC verified it and found it right
};

// The sum of two parts. Order does not matter.
constexpr std::uint64_t checksum_combine(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum + (sum < a ? 1 : 0);
}

// `sum` and all of `bytes`; any length and alignment.
[[nodiscard]] std::uint64_t checksum_add(std::uint64_t sum, ByteView bytes);

// Copies n bytes (any number, any alignment, no overlap) and returns `sum` and the sum of the bytes that it
// wrote, in one pass. Each source byte is read once: if the source is changed meanwhile, the sum still
// is that of the copy.
[[nodiscard]] std::uint64_t copy_and_sum(std::byte* destination, const std::byte* source, std::size_t n,
                                         std::uint64_t sum = 0);

// How long runs are summed, `n` bytes of them, a multiple of 32: alone, or with a copy. Chosen by what the processor
// has when the program starts.
struct ChecksumRuns {
  const char* instructions;
  std::uint64_t (*sum)(const std::byte* source, std::byte* destination, std::size_t n);
  std::uint64_t (*copy)(const std::byte* source, std::byte* destination, std::size_t n);
};
// Those that this processor can execute; the last is the one in use.
std::span<const ChecksumRuns> checksum_runs();
// Returns the one that was in use before. For tests and benchmarks, in which one thread runs.
ChecksumRuns use_checksum_runs(const ChecksumRuns& runs);

// Down to 16 bits, not complemented. Over a message that contains a right checksum this is 0xffff.
constexpr std::uint16_t checksum_fold(std::uint64_t sum) {
  // Half and half, with the carry brought round.
  const auto low = static_cast<std::uint32_t>(sum);
  std::uint32_t half = static_cast<std::uint32_t>(sum >> 32) + low;
  half += half < low ? 1 : 0;
  const std::uint32_t quarter = (half >> 16) + (half & 0xffff);  // <= 2^17 - 2
  return static_cast<std::uint16_t>(quarter + (quarter >> 16));
}

// The value of the checksum field, to be written with store().
constexpr std::uint16_t checksum_field(std::uint64_t sum) {
  return static_cast<std::uint16_t>(~checksum_fold(sum));
}

// The sum over a message, its checksum field included, says that the message is whole.
constexpr bool checksum_is_right(std::uint64_t sum) {
  return checksum_fold(sum) == 0xffff;
}

}  // namespace braid::stack
