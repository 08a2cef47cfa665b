// Memory of another process, mapped through a descriptor.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace braid::proxy {

// Owns the mapping, not the descriptor.
class Mapping {
 public:
  enum class Access { kRead, kReadAndWrite };

  Mapping() = default;  // of nothing
  // The first `bytes` of what `fd` stands for, which must be as large. The error is the system's alone.
  static Result<Mapping> of(int fd, std::size_t bytes, Access access);
  Mapping(Mapping&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  // nullptr: of nothing.
  std::byte* begin() const { return begin_; }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace braid::proxy
