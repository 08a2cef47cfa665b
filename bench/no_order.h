// Pages in an order that the page engine takes for no scan, so that each one is missed (PG-25).
#pragma once

#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace braid::dsm {

// 0 .. count - 1, the same order each time.
inline std::vector<std::size_t> in_no_order(std::size_t count) {
  std::vector<std::size_t> pages(count);
  std::iota(pages.begin(), pages.end(), std::size_t{0});
  std::mt19937 random(1);
  for (std::size_t i = count; i > 1; --i) std::swap(pages[i - 1], pages[random() % i]);
  return pages;
}

}  // namespace braid::dsm
