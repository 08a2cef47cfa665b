#include "tests/fuzz/arena.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define BRAID_FUZZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BRAID_FUZZ_ASAN 1
#endif
#endif

#ifdef BRAID_FUZZ_ASAN
#include <sanitizer/asan_interface.h>
#define BRAID_RAW __attribute__((no_sanitize("address", "undefined"), noinline))
#else
#define BRAID_RAW __attribute__((noinline))
#endif

namespace braid::fuzz {
namespace {

constexpr std::size_t kPage = 4096;

constexpr std::size_t rounded_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

constexpr std::size_t kMaxReleased = 1 << 20;

void poison(const void* at, std::size_t bytes) {
#ifdef BRAID_FUZZ_ASAN
  __asan_poison_memory_region(at, bytes);
#else
  (void)at, (void)bytes;
#endif
}
void unpoison(const void* at, std::size_t bytes) {
#ifdef BRAID_FUZZ_ASAN
  __asan_unpoison_memory_region(at, bytes);
#else
  (void)at, (void)bytes;
#endif
}

// Before each block, poisoned.
struct Header {
  std::uint64_t bytes;
  std::uint32_t next;  // of the released ones, in granules; 0: none
  std::uint32_t reserved;
};
static_assert(sizeof(Header) == 16);

BRAID_RAW Header read_header(const std::byte* block) {
  return *reinterpret_cast<const Header*>(block - sizeof(Header));
}
BRAID_RAW void write_header(std::byte* block, const Header& header) {
  *reinterpret_cast<Header*>(block - sizeof(Header)) = header;
}

BRAID_RAW std::uint64_t read_word(const std::byte* at) {
  return *reinterpret_cast<const std::uint64_t*>(at);
}

// The sanitizer's own memcpy() refuses poisoned bytes.
BRAID_RAW void raw_copy(void* to, const void* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
BRAID_RAW bool same(const std::byte* a, const std::byte* b, std::size_t words) {
  const auto* const x = reinterpret_cast<const std::uint64_t*>(a);
  const auto* const y = reinterpret_cast<const std::uint64_t*>(b);
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < words; ++i) different |= x[i] ^ y[i];
  return different == 0;
}

// Writes what differs only: most of a world is the same after every input.
void undo_changes(std::byte* memory, const std::byte* image, std::size_t bytes) {
  constexpr std::size_t kStep = 1024;
  for (std::size_t at = 0; at < bytes; at += kStep) {
    const std::size_t step = bytes - at < kStep ? bytes - at : kStep;
    if (step < kStep || !same(memory + at, image + at, step / sizeof(std::uint64_t)))
      raw_copy(memory + at, image + at, step);
  }
}

bool all_zero(const std::byte* page) {
  return same(page, page + kPage / 2, kPage / 2 / sizeof(std::uint64_t)) && read_word(page) == 0 &&
         same(page, page + sizeof(std::uint64_t), kPage / 2 / sizeof(std::uint64_t));
}

std::byte* map(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fputs("the fuzzer's arena: no memory\n", stderr);
    std::abort();
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

Arena& Arena::instance() {
  static Arena arena;
  return arena;
}

Arena::Arena() : begin_(map(kBytes)), released_(reinterpret_cast<std::uint32_t*>(map(4 * kMaxReleased))) {}

bool Arena::rebuilds() {
  static const bool rebuilds = std::getenv("BRAID_FUZZ_REBUILD") != nullptr;
  return rebuilds;
}

Arena::Use::Use() : before_(std::exchange(instance().in_use_, !rebuilds())) {}
Arena::Use::~Use() {
  instance().in_use_ = before_;
}
Arena::Pause::Pause() : before_(std::exchange(instance().in_use_, false)) {}
Arena::Pause::~Pause() {
  instance().in_use_ = before_;
}

void Arena::add(void* begin, std::size_t bytes) {
  if (range_count_ == kMaxRanges) std::abort();
  ranges_[range_count_++] = {static_cast<std::byte*>(begin), map(bytes), bytes};
}

void Arena::keep() {
  if (image_ != nullptr) ::munmap(image_, rounded_up(kept_end_ + 1, kPage));
  kept_end_ = end_;
  image_ = map(rounded_up(end_ + 1, kPage));
  raw_copy(image_, begin_, end_);
  find_untouched();
  for (std::size_t i = 0; i < range_count_; ++i)
    raw_copy(ranges_[i].image, ranges_[i].begin, ranges_[i].bytes);
  // Blocks that were released before are not used again, so that every block is either kept or not.
  for (Queue& queue : queues_) queue = {};
}

void Arena::find_untouched() {
  untouched_count_ = 0;
  std::size_t from = 0;
  for (std::size_t page = 0; page <= kept_end_; page += kPage) {
    if (page + kPage <= kept_end_ && all_zero(begin_ + page)) continue;
    if (page - from >= kUntouched && untouched_count_ < kMaxRanges) {
      untouched_[untouched_count_++] = {begin_ + from, nullptr, page - from};
      (void)::madvise(begin_ + from, page - from, MADV_DONTNEED);
      (void)::madvise(image_ + from, page - from, MADV_DONTNEED);
    }
    from = page + kPage;
  }
}

void Arena::restore() {
  for (; released_count_ > 0; --released_count_) {
    const std::byte* const block = begin_ + std::size_t{released_[released_count_ - 1]} * kGranule;
    unpoison(block, read_header(block).bytes);
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < untouched_count_; ++i) {
    const auto from = static_cast<std::size_t>(untouched_[i].begin - begin_);
    undo_changes(begin_ + at, image_ + at, from - at);
    (void)::madvise(untouched_[i].begin, untouched_[i].bytes, MADV_DONTNEED);
    at = from + untouched_[i].bytes;
  }
  undo_changes(begin_ + at, image_ + at, kept_end_ - at);
  for (std::size_t i = 0; i < range_count_; ++i)
    undo_changes(ranges_[i].begin, ranges_[i].image, ranges_[i].bytes);
  poison(begin_ + kept_end_, end_ - kept_end_);
  if (end_ > kept_end_ + kResident) {
    std::byte* const page = begin_ + rounded_up(kept_end_, kPage);
    (void)::madvise(page, static_cast<std::size_t>(begin_ + end_ - page), MADV_DONTNEED);
  }
  end_ = kept_end_;
  for (Queue& queue : queues_) queue = {};
}

void* Arena::take_released(std::size_t rounded) {
  const std::size_t size = rounded / kGranule;
  if (size >= kSizes || queues_[size].count < kQuarantine) return nullptr;
  Queue& queue = queues_[size];
  std::byte* const block = begin_ + std::size_t{queue.first} * kGranule;
  queue.first = read_header(block).next;
  --queue.count;
  return block;
}

void Arena::put_back(std::byte* block, std::size_t rounded) {
  const std::size_t size = rounded / kGranule;
  if (size >= kSizes) return;
  const auto at = static_cast<std::uint32_t>(static_cast<std::size_t>(block - begin_) / kGranule);
  Queue& queue = queues_[size];
  if (queue.count++ == 0) {
    queue.first = at;
  } else {
    std::byte* const last = begin_ + std::size_t{queue.last} * kGranule;
    Header header = read_header(last);
    header.next = at;
    write_header(last, header);
  }
  queue.last = at;
}

void* Arena::allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = rounded_up(bytes == 0 ? 1 : bytes, kGranule);
  if (alignment <= kGranule) {
    if (void* const block = take_released(rounded)) {
      write_header(static_cast<std::byte*>(block), {bytes, 0, 0});
      unpoison(block, bytes);
      return block;
    }
  }
  const std::size_t at = rounded_up(end_ + sizeof(Header), alignment > kGranule ? alignment : kGranule);
  if (at + rounded + kGranule > kBytes) return nullptr;
  end_ = at + rounded;
  while (end_ + kGranule > poisoned_end_) {
    constexpr std::size_t kStep = std::size_t{1} << 18;
    poison(begin_ + poisoned_end_, kStep);
    poisoned_end_ += kStep;
  }
  std::byte* const block = begin_ + at;
  write_header(block, {bytes, 0, 0});
  unpoison(block, bytes);
  return block;
}

void Arena::release(void* block) {
  auto* const at = static_cast<std::byte*>(block);
  const std::size_t bytes = read_header(at).bytes;
  const std::size_t rounded = rounded_up(bytes == 0 ? 1 : bytes, kGranule);
#ifdef BRAID_FUZZ_ASAN
  if (__asan_address_is_poisoned(at) != 0 && bytes > 0) {
    std::fputs("a block of the fuzzer's arena is released twice\n", stderr);
    std::abort();
  }
#endif
  poison(at, rounded);
  if (image_ != nullptr && static_cast<std::size_t>(at - begin_) < kept_end_) {
    if (released_count_ == kMaxReleased) std::abort();
    released_[released_count_++] =
        static_cast<std::uint32_t>(static_cast<std::size_t>(at - begin_) / kGranule);
    return;
  }
  put_back(at, rounded);
}

}  // namespace braid::fuzz

// All of them, so that none pairs with another's; without the arena they are malloc() and free(), which the sanitizers
// know.
namespace {

void* take(std::size_t bytes, std::size_t alignment) {
  braid::fuzz::Arena& arena = braid::fuzz::Arena::instance();
  if (arena.in_use()) return arena.allocate(bytes, alignment);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, braid::fuzz::rounded_up(bytes == 0 ? 1 : bytes, alignment));
}
void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const block = take(bytes, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void give(void* block) {
  braid::fuzz::Arena& arena = braid::fuzz::Arena::instance();
  if (arena.owns(block))
    arena.release(block);
  else
    std::free(block);
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t n) {
  return take_or_throw(n, kUsual);
}
void* operator new[](std::size_t n) {
  return take_or_throw(n, kUsual);
}
void* operator new(std::size_t n, std::align_val_t a) {
  return take_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return take_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return take(n, kUsual);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return take(n, kUsual);
}
void operator delete(void* p) noexcept {
  give(p);
}
void operator delete[](void* p) noexcept {
  give(p);
}
void operator delete(void* p, std::size_t) noexcept {
  give(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  give(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  give(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  give(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  give(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  give(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  give(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
  give(p);
}
