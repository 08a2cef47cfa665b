// Numbers as users write them in flags and files.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

namespace braid::cli {

// The number that the whole of `text` is; nothing if it is none, or not a T's.
template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace braid::cli
