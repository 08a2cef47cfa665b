#include "settings/value.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "settings/text.h"

namespace braid::settings {
namespace {

constexpr char kAuto[] = "auto";

// A whole number with its sign. Nothing: the text is not a whole number, or 64 bits cannot hold it.
struct Whole {
  bool negative = false;
  std::uint64_t magnitude = 0;
};
std::optional<Whole> whole_in(const std::string& text, bool may_be_negative) {
  Whole whole;
  const char* begin = text.data();
  const char* const end = text.data() + text.size();
  if (may_be_negative && begin != end && *begin == '-') {
    whole.negative = true;
    ++begin;
  }
  const auto [stop, failed] = std::from_chars(begin, end, whole.magnitude);
  if (failed != std::errc() || stop != end) return std::nullopt;
  return whole;
}

bool in_bounds(const Setting& s, const Whole& whole) {
  if (whole.negative && whole.magnitude != 0)
    return s.least < 0 && whole.magnitude <= static_cast<std::uint64_t>(-s.least);
  return whole.magnitude <= s.most &&
         (s.least <= 0 || whole.magnitude >= static_cast<std::uint64_t>(s.least));
}

std::string bounds(const Setting& s) {
  if (s.kind == Kind::kWhole) return fmt::format("{} to {}", s.least, s.most);
  return fmt::format("{} to {}", s.least_number, s.max_number);
}

std::string not_allowed(const Setting& s, const std::string& text) {
  return fmt::format("'{}' is not allowed; allowed: {}", shown(text), allowed(s));
}

std::string problem_of_whole(const Setting& s, const std::string& text) {
  const std::optional<Whole> whole = whole_in(text, s.least < 0);
  const bool above = whole && !whole->negative && whole->magnitude > s.most;
  if (s.automatic) {
    if (text == kAuto || (whole && in_bounds(s, *whole))) return {};
    return not_allowed(s, text) + std::string(above ? s.beyond : "");
  }
  if (!whole) return fmt::format("'{}' is not a whole number; allowed: {}", shown(text), allowed(s));
  if (in_bounds(s, *whole)) return {};
  return fmt::format("{} is out of range; allowed: {}{}", shown(text), allowed(s), above ? s.beyond : "");
}

// The text of the value that is stored for "auto"; empty: the setting has none.
std::string automatic_text(const Setting& s) {
  if (s.automatic) return std::to_string(*s.automatic);
  return s.automatic_number ? text_of_number(*s.automatic_number) : std::string();
}

std::string problem_of_number(const Setting& s, const std::string& text) {
  if (s.automatic_number && text == kAuto) return {};
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  if (stop != end || failed == std::errc::invalid_argument)
    return fmt::format("'{}' is not a number; allowed: {}", shown(text), allowed(s));
  if (failed == std::errc() && value >= s.least_number && value <= s.max_number) return {};
  const bool above = failed == std::errc::result_out_of_range || value > s.max_number;
  return fmt::format("{} is out of range; allowed: {}{}", shown(text), allowed(s), above ? s.beyond : "");
}

std::string problem_of_word(const Setting& s, const std::string& text) {
  for (std::size_t i = 0; !s.word(i).empty(); ++i)
    if (s.word(i) == text) return {};
  return not_allowed(s, text);
}

std::string problem_of_text(const Setting& s, const std::string& text) {
  // Texts go into messages and file names, where a line break can only be a mistake.
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    return fmt::format("a text with control characters is not allowed; allowed: {}", allowed(s));
  if (s.fits != nullptr && !s.fits(text)) return not_allowed(s, text);
  return {};
}

}  // namespace

std::string text_of_number(double value) {
  return fmt::format("{}", value);
}

double number_of_text(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string allowed(const Setting& s) {
  if (!s.allowed.empty()) return std::string(s.allowed);
  switch (s.kind) {
    case Kind::kWhole:
    case Kind::kNumber:
      return s.may_be_auto() ? "auto, or " + bounds(s) : bounds(s);
    case Kind::kTruth:
      return "true, false";
    case Kind::kWord: {
      std::string list;
      for (std::size_t i = 0; !s.word(i).empty(); ++i)
        list += (list.empty() ? "" : ", ") + std::string(s.word(i));
      return list;
    }
    case Kind::kText:
      break;
  }
  return "a text";
}

std::string problem_of(const Setting& s, const std::string& text) {
  switch (s.kind) {
    case Kind::kWhole:
      return problem_of_whole(s, text);
    case Kind::kNumber:
      return problem_of_number(s, text);
    case Kind::kTruth:
      return text == "true" || text == "false" ? std::string() : not_allowed(s, text);
    case Kind::kWord:
      return problem_of_word(s, text);
    case Kind::kText:
      break;
  }
  return problem_of_text(s, text);
}

std::string assign(const Setting& s, void* object, const std::string& text) {
  if (std::string problem = problem_of(s, text); !problem.empty()) return problem;
  s.set(object, s.may_be_auto() && text == kAuto ? automatic_text(s) : text);
  return {};
}

std::string text_of(const Setting& s, const void* object) {
  std::string text = s.get(object);
  if (s.may_be_auto() && text == automatic_text(s)) return kAuto;
  return text;
}

std::string with_unit(const Setting& s, const std::string& text) {
  return s.unit.empty() || text == kAuto ? text : fmt::format("{} {}", text, s.unit);
}

}  // namespace braid::settings
