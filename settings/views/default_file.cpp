#include "settings/views/default_file.h"

#include <fmt/core.h>
#include <algorithm>

#include "base/check.h"
#include "settings/run.h"
#include "settings/value.h"

namespace braid::settings {
namespace {

constexpr std::string_view kHead =
    "# Every setting of a run with its default: without a file `braid run` and `braid sim` do what this file says.\n"
    "# Copy what you change; a file need not have every setting. Options of the command line win over the file.\n"
    "# `braid help defaults` prints this file from the declarations in settings/.\n";

constexpr std::size_t kWidth = 116;  // of a line

// `text` as lines of a comment.
std::string comment(std::string_view text, const std::string& indent) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, std::min(text.find(' '), text.size()));
    if (column == 0 || column + 1 + word.size() > kWidth) {
      lines += (column == 0 ? "" : "\n") + indent + "#";
      column = indent.size() + 1;
    }
    lines += fmt::format(" {}", word);
    column += 1 + word.size();
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return lines + "\n";
}

std::string_view in_words(Scope scope) {
  switch (scope) {
    case Scope::kBoth:
      return "";
    case Scope::kLive:
      return "; live runs only";
    case Scope::kSimulated:
      return "; simulations only";
  }
  return "";
}

std::string entry(const Setting& s, const void* object, const std::string& indent) {
  std::string about = comment(s.help, indent);
  about += comment(fmt::format("allowed: {}{}", allowed(s), in_words(s.scope)), indent);
  if (!s.reason.empty()) about += comment(fmt::format("reason for the default: {}", s.reason), indent);
  const std::string value = text_of(s, object);
  return fmt::format("{}{}{}: {}\n", about, indent, s.name, value.empty() ? "\"\"" : value);
}

std::string entries(const Schema& schema, void* object, const std::string& indent) {
  std::string text;
  for (const Setting& s : schema.settings) text += "\n" + entry(s, object, indent);
  for (const List& list : schema.lists)
    text += fmt::format("\n{}{}# an entry: {}\n{}{}: []\n", comment(list.help, indent), indent, list.example,
                        indent, list.name);
  for (const Section& section : schema.sections)
    text += fmt::format("\n{}{}{}:\n{}", comment(fmt::format("--- {}", section.title), indent), indent,
                        section.name, entries(*section.schema, section.at(object), indent + "  "));
  return text;
}

}  // namespace

std::string default_file() {
  RunConfig defaults;
  return std::string(kHead) + entries(kRunSchema, &defaults, "");
}

}  // namespace braid::settings
