#include "dsm/engine/diff.h"

#include <emmintrin.h>
#include <tmmintrin.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace braid::dsm {
namespace {

constexpr std::size_t kRunHeaderBytes = 4;

// A bit per byte of the page, 64 bytes a word; only the words of a page are used.
using Mask = std::array<std::uint64_t, PageLength::kMostBytes / 64>;

std::uint64_t differing(const std::byte* a, const std::byte* b) {
  std::uint64_t same = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + 16 * i));
    const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 16 * i));
    const auto bits = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(x, y)));
    same |= std::uint64_t{bits} << (16 * i);
  }
  return ~same;
}

// First byte at or after `from` that is marked (or is not, when kMarked is false); `end`, the page's, when
// there is none.
template <bool kMarked>
std::size_t next(const Mask& mask, std::size_t from, std::size_t end) {
  while (from < end) {
    const std::uint64_t word = kMarked ? mask[from / 64] : ~mask[from / 64];
    const std::uint64_t rest = word >> (from % 64);
    if (rest != 0) return from + static_cast<std::size_t>(std::countr_zero(rest));
    from = (from / 64 + 1) * 64;
  }
  return end;
}

std::size_t write_runs(std::size_t page_bytes, const Mask& mask, const std::byte* page, std::byte* out) {
  std::byte* const begin = out;
  for (std::size_t first = next<true>(mask, 0, page_bytes); first < page_bytes;) {
    const std::size_t end = next<false>(mask, first, page_bytes);
    store(out, static_cast<std::uint16_t>(first));
    store(out + 2, static_cast<std::uint16_t>(end - first));
    std::memcpy(out + kRunHeaderBytes, page + first, end - first);
    out += kRunHeaderBytes + (end - first);
    first = next<true>(mask, end, page_bytes);
  }
  return static_cast<std::size_t>(out - begin);
}

// For each of the 256 masks of 8 bytes, the shuffle that brings the marked bytes to the front.
constexpr auto kCompress = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (unsigned m = 0; m < 256; ++m) {
    unsigned n = 0;
    for (unsigned i = 0; i < 8; ++i)
      if (m >> i & 1) table[m][n++] = static_cast<std::uint8_t>(i);
    while (n < 8) table[m][n++] = 0x80;  // pshufb writes zero
  }
  return table;
}();

std::size_t write_mask(PageLength length, const Mask& mask, const std::byte* page, MutableBytes room) {
  std::memcpy(room.data(), mask.data(), length.mask_bytes());
  std::size_t end = length.mask_bytes();
  for (std::size_t group = 0; group < length.mask_bytes(); ++group) {
    const auto m = static_cast<std::uint8_t>(mask[group / 8] >> (group % 8 * 8));
    if (m == 0) continue;
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(page + group * 8));
    const __m128i order = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kCompress[m].data()));
    const __m128i marked = _mm_shuffle_epi8(bytes, order);
    const auto kept = static_cast<std::size_t>(std::popcount(m));
    // Eight bytes are stored, and the next group overwrites those that are too many; not past the room.
    if (room.size() - end >= 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(&room[end]), marked);
    } else {
      std::array<std::byte, 8> all;
      _mm_storel_epi64(reinterpret_cast<__m128i*>(all.data()), marked);
      std::memcpy(&room[end], all.data(), kept);
    }
    end += kept;
  }
  return end;
}

// PG-29
std::size_t run_length(const std::byte* header) {
  const std::size_t length = load<std::uint16_t>(header + 2);
  return length != 0 ? length : std::size_t{1} << 16;
}

bool apply_runs(std::size_t page_bytes, ByteView diff, std::byte* page) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < diff.size();) {
    if (diff.size() - at < kRunHeaderBytes) return false;
    const std::size_t offset = load<std::uint16_t>(&diff[at]);
    const std::size_t length = run_length(&diff[at]);
    at += kRunHeaderBytes;
    if (offset < end || !inside(offset, length, page_bytes)) return false;
    if (length > diff.size() - at) return false;
    at += length;
    end = offset + length;
  }
  for (std::size_t at = 0; at < diff.size();) {
    const std::size_t offset = load<std::uint16_t>(&diff[at]);
    const std::size_t length = run_length(&diff[at]);
    std::memcpy(page + offset, &diff[at + kRunHeaderBytes], length);
    at += kRunHeaderBytes + length;
  }
  return true;
}

// 1 to 8 bytes, not one more: another writer may own the next ones.
inline void copy_few(std::byte* to, const std::byte* from, int n) {
  if (n == 8) {
    store(to, load<std::uint64_t>(from));
  } else if (n >= 4) {
    const auto head = load<std::uint32_t>(from);
    const auto tail = load<std::uint32_t>(from + n - 4);
    store(to, head);
    store(to + n - 4, tail);
  } else if (n >= 2) {
    const auto head = load<std::uint16_t>(from);
    const auto tail = load<std::uint16_t>(from + n - 2);
    store(to, head);
    store(to + n - 2, tail);
  } else {
    *to = *from;
  }
}

bool apply_mask(PageLength page_length, ByteView diff, std::byte* page) {
  const std::size_t mask_bytes = page_length.mask_bytes();
  if (diff.size() < mask_bytes) return false;
  Mask mask;
  std::memcpy(mask.data(), diff.data(), mask_bytes);
  std::size_t changed = 0;
  for (std::size_t w = 0; w < mask_bytes / 8; ++w)
    changed += static_cast<std::size_t>(std::popcount(mask[w]));
  if (diff.size() != mask_bytes + changed) return false;

  const std::byte* packed = diff.data() + mask_bytes;
  for (std::size_t group = 0; group < mask_bytes; ++group) {
    unsigned m = mask[group / 8] >> (group % 8 * 8) & 0xff;
    for (std::byte* to = page + group * 8; m != 0;) {
      const int skip = std::countr_zero(m);
      const int length = std::countr_one(m >> skip);
      copy_few(to + skip, packed, length);
      packed += length;
      to += skip + length;
      m >>= skip + length;
    }
  }
  return true;
}

}  // namespace

EncodedDiff encode_diff(PageLength length, const std::byte* page, const std::byte* twin, MutableBytes room) {
  Mask mask;
  std::size_t runs = 0, changed = 0;
  std::uint64_t before = 0;  // was the byte before this word marked?
  for (std::size_t w = 0; w < length.bytes() / 64; ++w) {
    mask[w] = differing(page + w * 64, twin + w * 64);
    changed += static_cast<std::size_t>(std::popcount(mask[w]));
    runs += static_cast<std::size_t>(std::popcount(mask[w] & ~(mask[w] << 1 | before)));
    before = mask[w] >> 63;
  }
  EncodedDiff diff;
  diff.format = runs * kRunHeaderBytes <= length.mask_bytes() ? DiffFormat::kRuns : DiffFormat::kMask;
  diff.bytes = changed + (diff.format == DiffFormat::kRuns ? runs * kRunHeaderBytes : length.mask_bytes());
  if (diff.bytes > room.size()) return diff;
  const std::size_t written = diff.format == DiffFormat::kRuns
                                  ? write_runs(length.bytes(), mask, page, room.data())
                                  : write_mask(length, mask, page, room);
  CHECK_EQ(written, diff.bytes);
  return diff;
}

bool apply_diff(PageLength length, DiffFormat format, ByteView diff, std::byte* page) {
  switch (format) {
    case DiffFormat::kRuns:
      return apply_runs(length.bytes(), diff, page);
    case DiffFormat::kMask:
      return apply_mask(length, diff, page);
  }
  return false;
}

}  // namespace braid::dsm
