// A table of so many entries, of which only those that are used take memory: the kernel provides zeroed pages when they
// are written first. For tables with an entry for each of very many things, few of which are ever used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace braid {

// Every entry begins as zero bytes, so these must be T's initial state. Throws std::bad_alloc where the system gives
// no address space.
template <class T>
class ZeroedTable {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedTable(std::size_t size = 0) : size_(size) {
    if (size == 0) return;
    if (is_small()) {
      entries_ = static_cast<T*>(std::memset(::operator new(bytes()), 0, bytes()));
      return;
    }
    void* const memory =
        ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    // An entry that is used must not take 2 MiB.
    (void)::madvise(memory, bytes(), MADV_NOHUGEPAGE);
    entries_ = static_cast<T*>(memory);
  }
  ZeroedTable(ZeroedTable&& other) noexcept
      : entries_(std::exchange(other.entries_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ZeroedTable& operator=(ZeroedTable&& other) noexcept {
    std::swap(entries_, other.entries_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~ZeroedTable() {
    if (entries_ == nullptr) return;
    if (is_small())
      ::operator delete(entries_);
    else
      ::munmap(entries_, bytes());
  }

  std::size_t size() const { return size_; }
  // index < size(); not checked.
  T& operator[](std::size_t index) { return entries_[index]; }
  const T& operator[](std::size_t index) const { return entries_[index]; }
  const T* begin() const { return entries_; }
  const T* end() const { return entries_ + size_; }

 private:
  // A small table is memory like any other: a mapping of its own would cost more than it saves.
  static constexpr std::size_t kSmallBytes = 1 << 16;

  std::size_t bytes() const { return size_ * sizeof(T); }
  bool is_small() const { return bytes() <= kSmallBytes; }

  T* entries_ = nullptr;
  std::size_t size_;
};

}  // namespace braid
