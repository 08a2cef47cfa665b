// What a fuzzer reads its decisions from: the bytes of its input, then zeroes for ever. A byte more or less
// at one place changes what is decided there and little after it, so a small change of an input is a small
// change of the story.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace braid::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const std::byte*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  template <class T>
  T number() {
    std::byte raw[sizeof(T)] = {};
    const ByteView taken = bytes(sizeof(T));
    std::copy(taken.begin(), taken.end(), raw);
    return load<T>(raw);
  }
  std::uint8_t byte() { return number<std::uint8_t>(); }
  // 0 .. n-1
  std::uint32_t below(std::uint32_t n) { return n <= 256 ? byte() % n : number<std::uint32_t>() % n; }
  bool truth() { return (byte() & 1) != 0; }
  // At most so many, fewer at the end.
  ByteView bytes(std::size_t at_most) {
    const ByteView taken = rest_.first(std::min(at_most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  // As many as the input says, at most so many.
  ByteView some_bytes(std::size_t at_most) {
    return bytes(std::min<std::size_t>(number<std::uint16_t>(), at_most));
  }
  ByteView all() { return bytes(rest_.size()); }

 private:
  ByteView rest_;
};

// Changes some bytes of `victim`, as the input says.
inline void harm(Input& in, MutableBytes victim) {
  for (unsigned changes = in.below(8); changes > 0 && !victim.empty(); --changes) {
    const std::size_t at = in.number<std::uint16_t>() % victim.size();
    victim[at] ^= static_cast<std::byte>(in.byte());
  }
}

}  // namespace braid::fuzz

// What libFuzzer calls, and replay.cpp where there is none. Nothing is left over from one call to the next.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
