#include "stack/wire/checksum.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

namespace braid::stack {
namespace {

// Long runs go through the vector unit, sixteen bytes at a time, or thirty-two where the processor has AVX2: pmaddwd
// adds neighbouring words but takes them for signed, so 2^15 is taken from each word first and given back at the end.
// Three operations per load were the fastest of what SSE4.2 offers.
//
// All lanes together grow by at most 2^18 per sixteen bytes, one by 2^16: after this many bytes by 2^29 of
// its 2^31.
constexpr std::size_t kMaxVectorRun = std::size_t{1} << 17;
// Below it, adding up the lanes costs more than they save, and a chain of adc needs half the instructions.
constexpr std::size_t kMinVectorRun = 192;

__m128i words_in_pairs(__m128i bytes) {
  const __m128i biased = _mm_xor_si128(bytes, _mm_set1_epi16(static_cast<short>(0x8000)));
  return _mm_madd_epi16(biased, _mm_set1_epi16(1));
}

// Both pointers are to `at` bytes before what is meant: without a copy there is no destination to add to.
template <bool kCopy>
__m128i take_16(const std::byte* source, [[maybe_unused]] std::byte* destination, std::size_t at) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at));
  if constexpr (kCopy) _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + at), bytes);
  return words_in_pairs(bytes);
}

std::uint64_t sum_of_lanes(__m128i lanes, std::size_t bytes) {
  const __m128i wide = _mm_add_epi64(_mm_cvtepi32_epi64(lanes), _mm_cvtepi32_epi64(_mm_srli_si128(lanes, 8)));
  const auto biased = static_cast<std::uint64_t>(_mm_cvtsi128_si64(wide) + _mm_extract_epi64(wide, 1));
  return biased + (bytes / 2 << 15);
}

// `n` is a multiple of 32, and kMaxVectorRun at most.
template <bool kCopy>
std::uint64_t vector_run(const std::byte* source, std::byte* destination, std::size_t n) {
  __m128i even = _mm_setzero_si128();
  __m128i odd = _mm_setzero_si128();
  for (std::size_t i = 0; i < n; i += 32) {
    even = _mm_add_epi32(even, take_16<kCopy>(source, destination, i));
    odd = _mm_add_epi32(odd, take_16<kCopy>(source, destination, i + 16));
  }
  return sum_of_lanes(_mm_add_epi32(even, odd), n);
}

template <bool kCopy>
[[gnu::target("avx2")]] __m256i take_32(const std::byte* source, [[maybe_unused]] std::byte* destination,
                                        std::size_t at) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at));
  if constexpr (kCopy) _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + at), bytes);
  const __m256i biased = _mm256_xor_si256(bytes, _mm256_set1_epi16(static_cast<short>(0x8000)));
  return _mm256_madd_epi16(biased, _mm256_set1_epi16(1));
}

// As vector_run().
template <bool kCopy>
[[gnu::target("avx2")]] std::uint64_t wide_vector_run(const std::byte* source, std::byte* destination,
                                                      std::size_t n) {
  __m256i even = _mm256_setzero_si256();
  __m256i odd = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    even = _mm256_add_epi32(even, take_32<kCopy>(source, destination, i));
    odd = _mm256_add_epi32(odd, take_32<kCopy>(source, destination, i + 32));
  }
  if (i != n) odd = _mm256_add_epi32(odd, take_32<kCopy>(source, destination, i));
  const __m256i lanes = _mm256_add_epi32(even, odd);
  return sum_of_lanes(_mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)), n);
}

constexpr ChecksumRuns kNarrow{"sse4.2", &vector_run<false>, &vector_run<true>};
constexpr ChecksumRuns kWide{"avx2", &wide_vector_run<false>, &wide_vector_run<true>};

// Runs until wide_chosen is set, and after it if the processor has no wider registers.
ChecksumRuns used = kNarrow;
[[maybe_unused]] const bool wide_chosen = [] {
  const bool wide = __builtin_cpu_supports("avx2");
  if (wide) used = kWide;
  return wide;
}();

template <class Word, bool kCopy>
unsigned long long take_word(const std::byte* source, [[maybe_unused]] std::byte* destination,
                             std::size_t at = 0) {
  const Word word = load<Word>(source + at);
  if constexpr (kCopy) store(destination + at, word);
  return word;
}

// One chain of carries through 64 bytes.
template <bool kCopy>
std::uint64_t add_64_bytes(std::uint64_t start, const std::byte* source, std::byte* destination) {
  unsigned long long sum = start;
  unsigned char carry = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 64; i += 8) {
    carry = _addcarry_u64(carry, sum, take_word<std::uint64_t, kCopy>(source, destination, i), &sum);
  }
  return sum + carry;
}

// Fewer than 64 bytes.
template <bool kCopy>
std::uint64_t add_tail(std::uint64_t sum, const std::byte* source, std::byte* destination, std::size_t n) {
  const auto take = [&]<class Word>(Word) {
    sum = checksum_combine(sum, take_word<Word, kCopy>(source, destination));
    source += sizeof(Word);
    destination += kCopy ? sizeof(Word) : 0;
  };
  for (; n >= 8; n -= 8) take(std::uint64_t{});
  if (n & 4) take(std::uint32_t{});
  if (n & 2) take(std::uint16_t{});
  if (n & 1) take(std::uint8_t{});  // the low half of a word whose high half is zero
  return sum;
}

template <bool kCopy>
std::uint64_t add(std::uint64_t sum, const std::byte* source, std::byte* destination, std::size_t n) {
  const auto advance = [&](std::size_t bytes) {
    source += bytes;
    destination += kCopy ? bytes : 0;
    n -= bytes;
  };
  while (n >= kMinVectorRun) {
    const std::size_t run = std::min(n, kMaxVectorRun) / 32 * 32;
    sum = checksum_combine(sum, (kCopy ? used.copy : used.sum)(source, destination, run));
    advance(run);
  }
  while (n >= 64) {
    sum = add_64_bytes<kCopy>(sum, source, destination);
    advance(64);
  }
  return add_tail<kCopy>(sum, source, destination, n);
}

}  // namespace

std::span<const ChecksumRuns> checksum_runs() {
  static constexpr std::array kAll{kNarrow, kWide};
  return std::span(kAll).first(wide_chosen ? 2 : 1);
}

ChecksumRuns use_checksum_runs(const ChecksumRuns& runs) {
  return std::exchange(used, runs);
}

std::uint64_t checksum_add(std::uint64_t sum, ByteView bytes) {
  return add<false>(sum, bytes.data(), nullptr, bytes.size());
}

std::uint64_t copy_and_sum(std::byte* destination, const std::byte* source, std::size_t n,
                           std::uint64_t sum) {
  return add<true>(sum, source, destination, n);
}

}  // namespace braid::stack
