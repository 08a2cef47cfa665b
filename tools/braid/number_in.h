// Numbers in flags and files.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

namespace braid::cli {

// The number in `text`; nullopt if the whole of `text` is not a number of type T.
template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace braid::cli
