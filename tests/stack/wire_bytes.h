// Packets as a test writes them down, and memory that ends where the packet ends.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/prng.h"

namespace braid::stack {

using Bytes = std::vector<std::byte>;

inline Bytes bytes(std::initializer_list<int> values) {
  Bytes out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

inline Bytes bytes(std::string_view text) {
  Bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

inline Bytes random_bytes(Prng& prng, std::size_t n) {
  Bytes out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(prng.next());
  return out;
}

inline Bytes first(ByteView of, std::size_t n) {
  return Bytes(of.begin(), of.begin() + static_cast<long>(n));
}

inline Bytes with(Bytes of, std::size_t at, int value) {
  of.at(at) = static_cast<std::byte>(value);
  return of;
}

inline Bytes flipped(Bytes of, std::size_t bit) {
  of.at(bit / 8) ^= static_cast<std::byte>(1u << bit % 8);
  return of;
}

inline bool same(ByteView a, ByteView b) {
  return std::ranges::equal(a, b);
}

inline bool lies_within(ByteView part, ByteView whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

// The checksum as RFC 1071 defines it, word by word in network order: slow, and plainly right.
inline std::uint16_t plain_checksum(ByteView message) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const auto octet = std::to_integer<std::uint32_t>(message[i]);
    sum += i % 2 == 0 ? octet << 8 : octet;
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}

// Memory whose last byte is followed by a page that nobody may touch: reading past a view that ends there is
// a crash in every build.
class GuardedPage {
 public:
  GuardedPage() : page_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* const memory =
        mmap(nullptr, 2 * page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    page_ = static_cast<std::byte*>(memory);
    CHECK_EQ(mprotect(page_ + page_bytes_, page_bytes_, PROT_NONE), 0);
  }
  ~GuardedPage() { munmap(page_, 2 * page_bytes_); }
  GuardedPage(const GuardedPage&) = delete;
  GuardedPage& operator=(const GuardedPage&) = delete;

  // n bytes, a page at most, that end at the guard.
  MutableBytes last(std::size_t n) const {
    CHECK_LE(n, page_bytes_);
    return {page_ + page_bytes_ - n, n};
  }
  ByteView hold(ByteView content) const {
    const MutableBytes at = last(content.size());
    std::ranges::copy(content, at.begin());
    return at;
  }

 private:
  std::size_t page_bytes_;
  std::byte* page_ = nullptr;
};

}  // namespace braid::stack
