// The source of a fuzzer's decisions: the bytes of its input, then endless zeroes. A byte more or less
// at one place changes the decision there and little after it, so a small change of an input is a small change
// of what is done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/prng.h"
#include "tests/fuzz/arena.h"
#include "tests/fuzz/digest.h"

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
  // The number is the input's, at most so many.
  ByteView some_bytes(std::size_t at_most) {
    return bytes(std::min<std::size_t>(number<std::uint16_t>(), at_most));
  }
  ByteView all() { return bytes(rest_.size()); }

 private:
  ByteView rest_;
};

// Changes some bytes; the input chooses which.
inline void mutate(Input& in, MutableBytes bytes) {
  for (unsigned changes = in.below(8); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = in.number<std::uint16_t>() % bytes.size();
    bytes[at] ^= static_cast<std::byte>(in.byte());
  }
}

// Bytes for messages and packets: random, without a period, made once because a generator that is called for
// each byte costs more than the code under test.
inline ByteView random_bytes(std::size_t from, std::size_t count) {
  static const std::vector<std::byte> all = [] {
    const Arena::Pause pause;
    std::vector<std::byte> made(std::size_t{1} << 18);
    Prng prng(1);
    for (std::size_t i = 0; i < made.size(); i += sizeof(std::uint64_t)) store(made.data() + i, prng.next());
    return made;
  }();
  CHECK(inside(from, count, all.size()));
  return ByteView(all).subspan(from, count);
}

}  // namespace braid::fuzz

// Called by libFuzzer, or by replay.cpp without it. A call's result depends on its input alone.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
