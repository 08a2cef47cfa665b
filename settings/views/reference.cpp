#include "settings/views/reference.h"

#include <fmt/core.h>

#include "base/check.h"
#include "settings/cost_model.h"
#include "settings/node.h"
#include "settings/reader.h"
#include "settings/run.h"
#include "settings/value.h"

namespace braid::settings {
namespace {

constexpr const char* kHead =
    "# Settings\n"
    "\n"
    "Every setting with its option, its default, its allowed values, and its meaning. `braid help settings` prints this page\n"
    "from the declarations in `settings/`. A file is refused if it has an unknown key, a key twice, or a value that is not\n"
    "allowed; the message names the file, the line, the key and the cure.\n";

// Escaped for a cell of a table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string code(std::string_view text) {
  return text.empty() ? "" : fmt::format("`{}`", text);
}

std::string notes(const Setting& s) {
  std::string text = cell(s.help);
  if (!s.reason.empty()) text += fmt::format(". Default: {}", cell(s.reason));
  if (s.agreed) text += ". Both ends of a sub-connection must have the same value";
  if (s.scope == Scope::kLive) text += ". Live runs only";
  if (s.scope == Scope::kSimulated) text += ". Simulations only";
  return text;
}

std::string default_of(const Setting& s, const void* object) {
  if (s.required) return "must be given";
  const std::string text = text_of(s, object);
  return text.empty() ? "none" : code(with_unit(s, text));
}

std::string table(const Schema& schema, const void* object, bool with_options) {
  std::string text = with_options
                         ? "\n| key | option | default | allowed | meaning |\n|---|---|---|---|---|\n"
                         : "\n| key | default | allowed | meaning |\n|---|---|---|---|\n";
  for (const Setting& s : schema.settings) {
    text += fmt::format("| `{}` |", s.name);
    if (with_options) text += fmt::format(" {} |", code(s.option));
    text += fmt::format(" {} | {} | {} |\n", default_of(s, object), cell(allowed(s)), notes(s));
  }
  return text;
}

// Describes one struct with its sections and lists. A section that a run has too is described there only.
class Chapter {
 public:
  explicit Chapter(bool is_run) : is_run_(is_run) {}

  std::string describe(const Schema& schema, void* object, const std::string& prefix) const {
    std::string text;
    if (!schema.settings.empty()) text += table(schema, object, is_run_);
    for (const Section& section : schema.sections) {
      const std::string key = prefix + std::string(section.name);
      text += fmt::format("\n### `{}`: {}\n", key, section.title);
      const std::string reference = is_run_ ? "" : as_in_a_run(section, object);
      text += reference.empty() ? describe(*section.schema, section.at(object), key + ".") : reference;
    }
    for (const NamedNumbers& named : schema.named)
      text += fmt::format("\n### `{}{}`: {}\n\nEach number is {}.\n", prefix, named.name, cell(named.help),
                          allowed(named.value));
    for (const List& list : schema.lists) {
      const std::string key = fmt::format("{}{}[]", prefix, list.name);
      text += fmt::format("\n### `{}`: {}\n\nA list of entries such as `{}`.\n", key, cell(list.help),
                          list.example);
      text += describe(*list.schema, list.append(object), key + ".");
      list.clear(object);
    }
    return text + relations(schema, prefix);
  }

 private:
  static std::string relations(const Schema& schema, const std::string& prefix) {
    if (schema.relations.empty()) return "";
    std::string text = prefix.empty()
                           ? "\nRelations between settings:\n\n"
                           : fmt::format("\nRelations within `{}`:\n\n", prefix.substr(0, prefix.size() - 1));
    for (const Relation& relation : schema.relations) text += fmt::format("- {}\n", relation.says);
    return text;
  }

  // A reference to the same section of a run, with the defaults that differ; empty: a run has no such section.
  static std::string as_in_a_run(const Section& section, void* object) {
    RunConfig run;
    for (const Section& of_run : kRunSchema.sections) {
      if (of_run.schema != section.schema) continue;
      std::string differ;
      for (const Setting& s : section.schema->settings) {
        const std::string own = default_of(s, section.at(object));
        if (own != default_of(s, of_run.at(&run)))
          differ += fmt::format("{}`{}` {}", differ.empty() ? "" : ", ", s.name, own);
      }
      return fmt::format("\nThe same settings as a run's `{}`{}.\n", of_run.name,
                         differ.empty() ? "" : ", with other defaults: " + differ);
    }
    return "";
  }

  const bool is_run_;
};

template <class T>
std::string chapter(const std::string& title, const std::string& about) {
  T defaults;
  const Chapter chapter(std::is_same_v<T, RunConfig>);
  return fmt::format("\n## {}\n\n{}\n", title, about) + chapter.describe(schema_of(&defaults), &defaults, "");
}

}  // namespace

std::string reference_page() {
  return kHead +
         chapter<RunConfig>(
             "A run",
             "YAML, for `braid run --config` and `braid sim --config`, and below `base` and `vary` of a "
             "study. Options of\nthe command line win over the file. `configs/default.yaml` has all of "
             "them with their defaults.") +
         chapter<NodeConfig>("A node",
                             "JSON, for `braidd --config`. `braid run` writes it for each of its daemons; "
                             "`docs/OPERATIONS.md` shows one for a machine\nof its own.") +
         chapter<CostModel>(
             "A cost model",
             "YAML, for `braid sim --model`. A model of `configs/models` is given by its name. A cost is written "
             "with its source:\n`{value: 100, source: \"where it is from\"}`.");
}

}  // namespace braid::settings
