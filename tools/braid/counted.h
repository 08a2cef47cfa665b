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

// "1 proxy", "1 to 3 proxies".
inline std::string counted_between(std::size_t least, std::size_t most, std::string_view one,
                                   std::string_view many) {
  return (least == most ? "" : fmt::format("{} to ", least)) + counted(most, one, many);
}

}  // namespace braid::cli
