// Numbers that look random and need no state, so that every compute node and a sequential run have the same.
#pragma once

#include <cstdint>

namespace braid::apps {

// The number after `n` others of splitmix64 (https://prng.di.unimi.it/splitmix64.c), begun at `state`.
inline std::uint64_t nth_bits(std::uint64_t state, std::uint64_t n) {
  std::uint64_t z = state + (n + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace braid::apps
