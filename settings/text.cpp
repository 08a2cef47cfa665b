#include "settings/text.h"

#include <fmt/core.h>
#include <algorithm>

#include "base/check.h"

namespace braid::settings {
namespace {

constexpr std::size_t kLongestShown = 120;

// The length of the UTF-8 character at the beginning of `text`; 0: there is none that may be shown.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) >= 0x20 && byte(0) < 0x7f) return 1;
  const std::size_t bytes = byte(0) >= 0xf0 && byte(0) < 0xf5   ? 4
                            : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                            : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                                                                : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // U+0080 to U+009f control terminals too. U+2028 to U+202e and U+2066 to U+2069 break lines or change their
  // direction.
  if (byte(0) == 0xc2 && byte(1) < 0xa0) return 0;
  if (byte(0) == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) return 0;
  if (byte(0) == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9) return 0;
  return bytes;
}

// The edit distance of two words (Levenshtein).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string shown(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(at));
    std::string next;
    if (bytes > 0)
      next = text.substr(at, bytes);
    else if (text[at] == '\n')
      next = "\\n";
    else if (text[at] == '\t')
      next = "\\t";
    else
      next = fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    if (result.size() + next.size() > kLongestShown) return result + "…";
    result += next;
    at += std::max<std::size_t>(bytes, 1);
  }
  return result;
}

std::optional<std::string> nearest(const std::string& name, std::span<const std::string> known) {
  if (name.size() > kLongestShown) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // The last part alone: the user may have left out the section.
    const std::size_t dot = candidate.rfind('.');
    const std::string last = dot == std::string::npos ? candidate : candidate.substr(dot + 1);
    std::size_t d = std::min(distance(name, candidate), distance(name, last));
    if (name.size() >= 3 && last.starts_with(name)) d = std::min<std::size_t>(d, 1);
    if (d >= best_distance) continue;
    best_distance = d;
    best = candidate;
  }
  return best;
}

std::string not_known(const std::string& word, std::span<const std::string> known) {
  if (const auto near = nearest(word, known)) return "is not known; did you mean '" + *near + "'?";
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return "is not known; known here: " + list;
}

}  // namespace braid::settings
