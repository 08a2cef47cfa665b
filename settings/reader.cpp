#include "settings/reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "settings/text.h"
#include "settings/value.h"

namespace braid::settings {
namespace {

void* writable(const void* object) {
  return const_cast<void*>(object);  // at() and item() serve readers and writers
}

std::string joined(const std::string& prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
}

// Every key that is allowed below `prefix`, in full; a section stands before its own keys.
void add_keys(const Schema& schema, const std::string& prefix, std::vector<std::string>& keys) {
  for (const Setting& setting : schema.settings) keys.push_back(joined(prefix, setting.name));
  for (const Section& section : schema.sections) {
    keys.push_back(joined(prefix, section.name));
    add_keys(*section.schema, joined(prefix, section.name), keys);
  }
  for (const List& list : schema.lists) keys.push_back(joined(prefix, list.name));
  for (const NamedNumbers& named : schema.named) keys.push_back(joined(prefix, named.name));
}

// The keys that a map of this schema may have.
std::vector<std::string> words_of(const Schema& schema) {
  std::vector<std::string> words;
  for (const Setting& setting : schema.settings) words.emplace_back(setting.name);
  for (const Section& section : schema.sections) words.emplace_back(section.name);
  for (const List& list : schema.lists) words.emplace_back(list.name);
  for (const NamedNumbers& named : schema.named) words.emplace_back(named.name);
  return words;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

class Reader {
 public:
  // An unknown key is compared with the keys of `top`, whose prefix is `top_prefix`.
  Reader(const Document& document, const Schema& top, std::string top_prefix, Places& places)
      : document_(document), top_(top), top_prefix_(std::move(top_prefix)), places_(places) {}

  Result<void> read_map(const Node& map, const std::string& prefix, const Schema& schema, void* object) {
    std::set<std::string_view> seen;
    for (const Node::Entry& entry : map.entries) {
      if (const Result<void> done = read_entry(entry, prefix, schema, object); !done) return done;
      seen.insert(entry.key->text);
    }
    for (const Setting& setting : schema.settings) {
      if (!setting.required || seen.contains(setting.name)) continue;
      return document_.wrong(map, prefix, fmt::format("has no '{}'; add it: {}", setting.name, setting.help));
    }
    for (const Section& section : schema.sections) {
      if (section.required && !seen.contains(section.name))
        return document_.wrong(map, prefix,
                               fmt::format("has no '{}'; add it: {}", section.name, section.title));
    }
    return {};
  }

  // One entry of a map that `schema` describes.
  Result<void> read_entry(const Node::Entry& entry, const std::string& prefix, const Schema& schema,
                          void* object) {
    const std::string& word = entry.key->text;
    const std::string name = joined(prefix, word);
    for (const Setting& setting : schema.settings)
      if (setting.name == word) return read_setting(entry, name, setting, object);
    for (const Section& section : schema.sections)
      if (section.name == word) return read_section(entry, name, section, object);
    for (const List& list : schema.lists)
      if (list.name == word) return read_list(entry, name, list, object);
    for (const NamedNumbers& named : schema.named)
      if (named.name == word) return read_named(entry, name, named, object);
    return unknown(*entry.key, name, word, schema);
  }

 private:
  Result<void> read_setting(const Node::Entry& entry, const std::string& name, const Setting& setting,
                            void* object) {
    const Result<const Node*> value = value_of(entry, name, setting);
    if (!value) return value.error();
    if (const std::string problem = assign(setting, object, (*value)->text); !problem.empty())
      return document_.wrong(**value, name, problem);
    remember(*entry.key, name);
    return {};
  }

  void remember(const Node& key, const std::string& name) {
    places_[name] = fmt::format("{}: key '{}':", document_.place(key), name);
  }

  // The scalar for a setting. A map, a list, and a text where a number is expected are refused.
  Result<const Node*> value_of(const Node::Entry& entry, const std::string& name, const Setting& setting) {
    const Node* value = entry.value;
    if (setting.sourced) {
      const Result<const Node*> sourced = sourced_value(entry, name);
      if (!sourced) return sourced.error();
      value = *sourced;
    }
    if (value->is_null())
      return document_.wrong(*entry.key, name, "has no value; allowed: " + allowed(setting));
    if (!value->is_scalar())
      return document_.wrong(*value, name,
                             fmt::format("is a {} where one value is expected; allowed: {}",
                                         value->is_map() ? "section" : "list", allowed(setting)));
    const bool wants_text = setting.kind == Kind::kText || setting.kind == Kind::kWord;
    const bool is_auto = setting.may_be_auto() && value->text == "auto";
    if (value->quoted && !wants_text && !(is_auto && document_.types_are_exact()))
      return document_.wrong(*value, name,
                             fmt::format("\"{}\" is a string; write it without quotes; allowed: {}",
                                         shown(value->text), allowed(setting)));
    if (!value->quoted && wants_text && document_.types_are_exact())
      return document_.wrong(*value, name,
                             fmt::format("{} is not a string; write it in quotes; allowed: {}",
                                         shown(value->text), allowed(setting)));
    return value;
  }

  // {value: 100, source: "where it is from"}
  Result<const Node*> sourced_value(const Node::Entry& entry, const std::string& name) {
    const Node* value = nullptr;
    bool has_source = false;
    for (const Node::Entry& part : entry.value->entries) {
      if (part.key->text == "value")
        value = part.value;
      else if (part.key->text == "source")
        has_source = part.value->is_scalar() && !part.value->text.empty();
      else
        return document_.wrong(*part.key, joined(name, part.key->text),
                               "is not known; known here: value, source");
    }
    if (value == nullptr || !has_source)
      return document_.wrong(*entry.key, name,
                             "needs a value and its source: {value: 100, source: \"where it is from\"}");
    return value;
  }

  Result<void> read_section(const Node::Entry& entry, const std::string& name, const Section& section,
                            void* object) {
    if (!entry.value->is_map())
      return document_.wrong(*entry.key, name,
                             "is a section; put its keys below it: " + listed(words_of(*section.schema)));
    return read_map(*entry.value, name, *section.schema, section.at(object));
  }

  Result<void> read_list(const Node::Entry& entry, const std::string& name, const List& list, void* object) {
    if (!entry.value->is_list())
      return document_.wrong(entry.value->is_null() ? *entry.key : *entry.value, name,
                             fmt::format("must be a list of entries such as '{}'", list.example));
    remember(*entry.key, name);
    list.clear(object);
    for (std::size_t i = 0; i < entry.value->items.size(); ++i) {
      const Node& item = *entry.value->items[i];
      const std::string place = fmt::format("{}[{}]", name, i);
      if (!item.is_map()) return document_.wrong(item, place, fmt::format("must be '{}'", list.example));
      if (const Result<void> done = read_map(item, place, *list.schema, list.append(object)); !done)
        return done;
    }
    return {};
  }

  Result<void> read_named(const Node::Entry& entry, const std::string& name, const NamedNumbers& named,
                          void* object) {
    if (!entry.value->is_map())
      return document_.wrong(*entry.key, name, fmt::format("is a section: {}", named.help));
    for (const Node::Entry& number : entry.value->entries) {
      const std::string full = joined(name, number.key->text);
      const Result<const Node*> value = value_of(number, full, named.value);
      if (!value) return value.error();
      if (const std::string problem = problem_of(named.value, (*value)->text); !problem.empty())
        return document_.wrong(**value, full, problem);
      named.insert(object, number.key->text, number_of_text((*value)->text));
    }
    return {};
  }

  // "a.b.c" as the file has it: "a: {b: {c: …}}".
  static std::string nested(const std::string& word) {
    const std::size_t dot = word.find('.');
    if (dot == std::string::npos) return word + ": …";
    return fmt::format("{}: {{{}}}", word.substr(0, dot), nested(word.substr(dot + 1)));
  }

  Error unknown(const Node& key, const std::string& name, const std::string& word, const Schema& schema) {
    const std::vector<std::string> here = words_of(schema);
    // Keys of the same map first: the user means most likely one of them.
    const std::string prefix = name.substr(0, name.size() - word.size());
    if (const auto near = nearest(word, here))
      return document_.wrong(key, name, fmt::format("is not known; did you mean '{}{}'?", prefix, *near));
    std::vector<std::string> all;
    add_keys(top_, top_prefix_, all);
    if (std::find(all.begin(), all.end(), name) != all.end())
      return document_.wrong(key, name, fmt::format("stands in a section; write '{}'", nested(word)));
    // Settings outside a list cannot stand in its entries.
    const bool in_list = prefix.find('[') != std::string::npos;
    if (const auto near = in_list ? std::nullopt : nearest(word, all))
      return document_.wrong(key, name, fmt::format("is not known; did you mean '{}'?", *near));
    return document_.wrong(key, name, "is not known; known here: " + listed(here));
  }

  const Document& document_;
  const Schema& top_;
  const std::string top_prefix_;
  Places& places_;
};

std::optional<Conflict> find_conflict(const Schema& schema, const std::string& prefix, const void* object) {
  for (const Setting& setting : schema.settings) {
    const std::string text = text_of(setting, object);
    const bool is_absent = setting.kind == Kind::kText && text.empty() && !setting.required;
    if (std::string problem = is_absent ? std::string() : problem_of(setting, text); !problem.empty())
      return Conflict{{joined(prefix, setting.name)}, std::move(problem)};
  }
  for (const Section& section : schema.sections) {
    if (auto found =
            find_conflict(*section.schema, joined(prefix, section.name), section.at(writable(object))))
      return found;
  }
  for (const List& list : schema.lists) {
    for (std::size_t i = 0; i < list.size(object); ++i) {
      if (auto found = find_conflict(*list.schema, fmt::format("{}[{}]", joined(prefix, list.name), i),
                                     list.item(writable(object), i)))
        return found;
    }
  }
  for (const Relation& relation : schema.relations) {
    if (std::optional<Conflict> found = relation.broken(object)) {
      for (std::string& key : found->keys) key = joined(prefix, key);
      return found;
    }
  }
  return std::nullopt;
}

void list_settings(const Schema& schema, const Section* section, const std::string& prefix,
                   std::vector<Listed>& all) {
  for (const Setting& setting : schema.settings)
    all.push_back({joined(prefix, setting.name), &setting, section});
  for (const Section& inner : schema.sections)
    list_settings(*inner.schema, &inner, joined(prefix, inner.name), all);
}

}  // namespace

std::vector<Listed> all_settings(const Schema& schema) {
  std::vector<Listed> all;
  list_settings(schema, nullptr, "", all);
  return all;
}

Found find_setting(const Schema& schema, void* object, const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) {
    for (const Setting& setting : schema.settings)
      if (setting.name == key) return {&setting, object};
    return {nullptr, nullptr};
  }
  for (const Section& section : schema.sections) {
    if (section.name == key.substr(0, dot))
      return find_setting(*section.schema, object == nullptr ? nullptr : section.at(object),
                          key.substr(dot + 1));
  }
  return {nullptr, nullptr};
}

const Setting* find_setting(const Schema& schema, const std::string& key) {
  return find_setting(schema, nullptr, key).setting;
}

FoundList find_list(const Schema& schema, void* object, const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) {
    for (const List& list : schema.lists)
      if (list.name == key) return {&list, object};
    return {nullptr, nullptr};
  }
  for (const Section& section : schema.sections) {
    if (section.name == key.substr(0, dot))
      return find_list(*section.schema, object == nullptr ? nullptr : section.at(object),
                       key.substr(dot + 1));
  }
  return {nullptr, nullptr};
}

const List* find_list(const Schema& schema, const std::string& key) {
  return find_list(schema, nullptr, key).list;
}

std::string text_of(const Schema& schema, const void* object, const std::string& key) {
  const Found found = find_setting(schema, writable(object), key);
  CHECK(found.setting != nullptr);
  return text_of(*found.setting, found.object);
}

Result<void> read(const Document& document, const Node& node, const Schema& schema, void* object,
                  Places& places) {
  if (node.is_null()) return {};
  if (!node.is_map())
    return error("{}: {}", document.place(node),
                 document.types_are_exact() ? "must be an object {…}"
                                            : "the file must be a list of 'key: value' lines");
  return Reader(document, schema, "", places).read_map(node, "", schema, object);
}

Result<void> read_section(const Document& document, const Node& node, const std::string& prefix,
                          const Schema& schema, void* object, Places& places) {
  if (!node.is_map())
    return document.wrong(node, prefix, "is a section; put its keys below it: " + listed(words_of(schema)));
  return Reader(document, schema, prefix, places).read_map(node, prefix, schema, object);
}

Result<void> read_entry(const Document& document, const Node& key, const Node& value, const std::string& name,
                        const Schema& schema, void* object, Places& places) {
  const Schema* inner = &schema;
  std::string prefix, word = name;
  for (std::size_t dot = word.find('.'); dot != std::string::npos; dot = word.find('.')) {
    const Section* found = nullptr;
    for (const Section& section : inner->sections)
      if (section.name == word.substr(0, dot)) found = &section;
    if (found == nullptr) break;
    inner = found->schema;
    object = found->at(object);
    prefix = joined(prefix, found->name);
    word = word.substr(dot + 1);
  }
  Node last = key;
  last.text = word;
  return Reader(document, schema, "", places).read_entry({&last, &value}, prefix, *inner, object);
}

std::optional<Conflict> find_conflict(const Schema& schema, const void* object) {
  return find_conflict(schema, "", object);
}

Result<void> check(const Schema& schema, const void* object, const Places& places,
                   const std::string& source) {
  const std::optional<Conflict> conflict = find_conflict(schema, object);
  if (!conflict) return {};
  for (const std::string& key : conflict->keys) {
    const auto place = places.find(key);
    if (place != places.end()) return error("{} {}", place->second, conflict->text);
  }
  return error("{}{}key '{}': {}", source, source.empty() ? "" : ": ", conflict->keys.front(),
               conflict->text);
}

Result<void> set_from_text(const Schema& schema, void* object, const std::string& key,
                           const std::string& text, const std::string& place, Places& places) {
  const Found found = find_setting(schema, object, key);
  CHECK(found.setting != nullptr);
  if (const std::string problem = assign(*found.setting, found.object, text); !problem.empty())
    return error("{} {}", place, problem);
  places[key] = place;
  return {};
}

}  // namespace braid::settings
