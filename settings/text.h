// Texts from outside in messages: they are escaped and shortened, and the nearest known word is proposed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::settings {

// `text` as a message may show it: control characters and bytes that are not UTF-8 become \xNN, and a text
// longer than a line is cut.
std::string shown(std::string_view text);

// The word of `known` that is nearest to `name`; nothing if none is near. A name without its sections matches.
std::optional<std::string> nearest(const std::string& name, std::span<const std::string> known);

// The text of a message about a word that is not one of `known`.
std::string not_known(const std::string& word, std::span<const std::string> known);

}  // namespace braid::settings
