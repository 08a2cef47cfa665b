// A digest of the results that the code under test gave for an input. replay.cpp runs the input again after others and
// compares the two.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bytes.h"

namespace braid::fuzz {

class Digest {
 public:
  static Digest& instance() {
    static Digest digest;
    return digest;
  }
  // Only replay.cpp wants one: it costs more than many an input.
  void want() { wanted_ = true; }
  // Every input begins here, after its world was built.
  void begin() { value_ = 0; }
  std::uint64_t value() const { return value_; }

  void add(std::uint64_t number) {
    if (wanted_) value_ = (std::rotl(value_, 23) ^ number) * 0x9e3779b97f4a7c15u;
  }
  void add(ByteView bytes) {
    if (!wanted_) return;
    add(bytes.size());
    for (const std::byte b : bytes) add(std::to_integer<std::uint64_t>(b));
  }

 private:
  bool wanted_ = false;
  std::uint64_t value_ = 0;
};

inline void digest(std::uint64_t number) {
  Digest::instance().add(number);
}
inline void digest(ByteView bytes) {
  Digest::instance().add(bytes);
}

}  // namespace braid::fuzz
