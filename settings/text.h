// Texts from outside, in messages: escaped, shortened, and compared with what was probably meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::settings {

// `text` as a message may show it: control characters and bytes that are no UTF-8 as \xNN, and no more than a
// line's worth of it.
std::string shown(std::string_view text);

// The nearest of `known` to `name`, if one is near enough to be meant. Sections may have been left out.
std::optional<std::string> nearest(const std::string& name, std::span<const std::string> known);

// What to say of a word that is none of `known`.
std::string not_known(const std::string& word, std::span<const std::string> known);

}  // namespace braid::settings
