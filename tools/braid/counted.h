// Numbers of things in texts for people.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace braid::cli {

// "1 proxy", "3 proxies"; without `many` an s is put behind `one`.
inline std::string counted(std::size_t number, std::string_view one, std::string_view many = {}) {
  if (number == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", number, one) : fmt::format("{} {}", number, many);
}

}  // namespace braid::cli
