#include "tests/sim/charge_probes.h"

#include <cerrno>

namespace braid::sim::testing {

std::int64_t touch_between_observations(volatile char* byte, std::int64_t x) {
  x *= 3;
  observe_budget();
  x ^= x >> 3;
  *byte = static_cast<char>(x);
  x = x * 5 + *byte;
  observe_budget();
  return x;
}

std::size_t touch_pages(const volatile char* pages, std::size_t page_bytes) {
  std::size_t seen = 0;
  while (pages[seen * page_bytes] == 0) ++seen;
  return seen;
}

// Unpredictable branches, so that every iteration has several charges.
double many_live_values(const double* in, std::int64_t rounds) {
  double a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6], h = in[7];
  std::uint64_t i = 1, j = 2, k = 3, l = 4, m = 5;
  for (std::int64_t round = 0; round < rounds; ++round) {
    i = i * 6364136223846793005u + 1;
    if ((i >> 40 & 1) != 0) {
      a = a * 0.5 + b;
      j ^= i;
    } else {
      b = b * 0.25 + c;
      k += j;
    }
    if ((i >> 41 & 1) != 0) {
      c = c * 0.125 + d;
      d = d * 0.5 + static_cast<double>(k & 7);
      l ^= k >> 5;
    }
    if ((i >> 42 & 1) != 0) {
      e = e * 0.5 + f;
      m += l;
    } else {
      f = f * 0.5 + g;
      g = g * 0.75 + h;
      h = h * 0.5 + static_cast<double>(m & 15);
    }
  }
  return a + b + c + d + e + f + g + h + static_cast<double>((i ^ j ^ k ^ l ^ m) & 0xffff);
}

long double many_live_long_values(std::int64_t rounds) {
  long double a = 1, b = 2, c = 3, d = 4;
  std::uint64_t i = 1;
  for (std::int64_t round = 0; round < rounds; ++round) {
    i = i * 6364136223846793005u + 1;
    if ((i >> 40 & 1) != 0) {
      a = a / 3 + b;
    } else {
      b = b / 7 + c;
    }
    if ((i >> 41 & 1) != 0) c = c / 5 + d;
    if ((i >> 42 & 1) != 0) d = d / 11 + a;
  }
  return a + b + c + d;
}

std::int64_t leaf(const std::int64_t* in, std::int64_t n) {
  std::int64_t kept[8] = {};  // in the red zone, if there were one
  for (std::int64_t i = 0; i < n; ++i) {
    if ((in[i] & 1) != 0) {
      kept[in[i] & 7] += in[i];
    } else {
      kept[in[i] >> 1 & 7] ^= i;
    }
  }
  return kept[n & 7] + kept[(n + 3) & 7] * 3;
}

int keeps_errno(int value, std::int64_t rounds) {
  errno = value;
  std::uint64_t i = 1;
  for (std::int64_t round = 0; round < rounds; ++round) {
    i = i * 6364136223846793005u + 1;
    if ((i >> 40 & 1) != 0) i ^= 77;
  }
  return i != 0 ? *const_cast<volatile int*>(&errno) : -1;  // volatile: the compiler must read it
}

}  // namespace braid::sim::testing
