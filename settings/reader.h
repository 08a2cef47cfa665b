// Reads a parsed file, or single texts, into a struct by its Schema. An unknown key, a value of another kind or
// outside its bounds, and a relation that does not hold are refused with place, key and cure. Nothing is
// ignored: a run with a misspelt key would do something other than the user asked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "settings/document.h"
#include "settings/setting.h"

namespace braid::settings {

// Where each setting was given, by its key. The place is the beginning of a message:
// "two.yaml:3:1: key 'clusters':" or "--clusters:".
using Places = std::map<std::string, std::string>;

// A setting and the struct that holds its value.
struct Found {
  const Setting* setting;
  void* object;
};

// All settings of a schema and its sections (not of its lists), in the order of declaration.
struct Listed {
  std::string key;  // in full, "transport.mtu_bytes"
  const Setting* setting;
  const Section* section;  // null: at the top
};
std::vector<Listed> all_settings(const Schema& schema);

// Null: no setting has this key.
const Setting* find_setting(const Schema& schema, const std::string& key);
// The same with the struct that holds the value, inside `object`.
Found find_setting(const Schema& schema, void* object, const std::string& key);
// Null: no list has this key, such as "dpdk.interfaces".
const List* find_list(const Schema& schema, const std::string& key);
// The same with the struct that the list lies in, inside `object`.
struct FoundList {
  const List* list;
  void* object;
};
FoundList find_list(const Schema& schema, void* object, const std::string& key);
// The value as text. A setting must have this key.
std::string text_of(const Schema& schema, const void* object, const std::string& key);

// Reads a whole file's tree into `object`; a null node leaves it unchanged. Stops at the first problem.
Result<void> read(const Document& document, const Node& node, const Schema& schema, void* object,
                  Places& places);
// Reads one setting, section or list as if `name: value` stood at the top of a file. `name` is its key in full.
Result<void> read_entry(const Document& document, const Node& key, const Node& value, const std::string& name,
                        const Schema& schema, void* object, Places& places);
// Reads one section of a file whose other parts are not described by a Schema; `prefix` is the section's key.
Result<void> read_section(const Document& document, const Node& node, const std::string& prefix,
                          const Schema& schema, void* object, Places& places);

// The first value of `object` outside its bounds, or the first relation that does not hold.
std::optional<Conflict> find_conflict(const Schema& schema, const void* object);
// find_conflict() as an error: "file:line:column: key 'transport.mtu_bytes': …". If none of the conflict's keys
// was given, the error names `source` instead of a place.
Result<void> check(const Schema& schema, const void* object, const Places& places, const std::string& source);

// Collects settings from a file and then from options, which win; remembers the place of each; checks all of
// them in finish(). T has a Schema: schema_of(static_cast<const T*>(nullptr)).
template <class T>
class Collector {
 public:
  static const Schema& schema() { return schema_of(static_cast<const T*>(nullptr)); }

  Result<void> load(const Document& document) { return load(document, document.root()); }
  // The same from a part of the file.
  Result<void> load(const Document& document, const Node& node) {
    source_ = document.file();
    return read(document, node, schema(), &value_, places_);
  }
  Result<void> load_entry(const Document& document, const Node& key, const Node& value) {
    return read_entry(document, key, value, key.text, schema(), &value_, places_);
  }
  // `key` must be the key of a setting; `place` is the beginning of a message, "--clusters:".
  Result<void> set(const std::string& key, const std::string& text, const std::string& place);

  Result<T> finish() const {
    if (const Result<void> done = check(schema(), &value_, places_, source_); !done) return done.error();
    return value_;
  }
  // The values so far, without a check of bounds and relations.
  const T& unchecked() const { return value_; }
  bool is_given(const std::string& key) const { return places_.contains(key); }
  const Places& given() const { return places_; }

 private:
  T value_;
  Places places_;
  std::string source_;
};

Result<void> set_from_text(const Schema& schema, void* object, const std::string& key,
                           const std::string& text, const std::string& place, Places& places);

template <class T>
Result<void> Collector<T>::set(const std::string& key, const std::string& text, const std::string& place) {
  return set_from_text(schema(), &value_, key, text, place, places_);
}

}  // namespace braid::settings
