// From a parsed file, or from single texts, to a struct: by its Schema, strictly. A key that is not known, a
// value of another kind or beyond its bounds, and a relation that does not hold are refused with their place,
// the key and the cure: a misspelt key that is ignored is a run that does something else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "settings/document.h"
#include "settings/setting.h"

namespace braid::settings {

// Where each setting was given, by its key, as messages begin: "two.yaml:3:1: key 'clusters':" or
// "--clusters:".
using Places = std::map<std::string, std::string>;

// A setting with its key in full, "transport.mtu_bytes", and the struct that it lies in.
struct Found {
  const Setting* setting;
  void* object;
};

// All settings of a schema and its sections (not of its lists), with their keys, in the order of declaration.
struct Listed {
  std::string key;
  const Setting* setting;
  const Section* section;  // null: at the top
};
std::vector<Listed> all_settings(const Schema& schema);

const Setting* find_setting(const Schema& schema, const std::string& key);
// `key` must be one.
Found find_setting(const Schema& schema, void* object, const std::string& key);
std::string text_of(const Schema& schema, const void* object, const std::string& key);

// Reads a whole file's tree into `object`; null leaves it as it is. The first problem ends it.
Result<void> read(const Document& document, const Node& node, const Schema& schema, void* object,
                  Places& places);
// One setting, section or list, its key in full: what `key: value` at the top of a file would do.
Result<void> read_entry(const Document& document, const Node& key, const Node& value, const std::string& name,
                        const Schema& schema, void* object, Places& places);
// What is below one section of a file that is read by other rules; `prefix` is its key.
Result<void> read_section(const Document& document, const Node& node, const std::string& prefix,
                          const Schema& schema, void* object, Places& places);

// The first value out of its bounds, or relation that does not hold, anywhere in `object`.
std::optional<Conflict> find_conflict(const Schema& schema, const void* object);
// "file:line:column: key 'transport.mtu_bytes': …", with the place of the key that was given; where none was,
// the name of the source, if there is one. Nothing: all holds.
Result<void> check(const Schema& schema, const void* object, const Places& places, const std::string& source);

// Collects settings from a file and then from flags, which win; remembers where each came from; checks the
// whole at the end. T has a Schema: schema_of(static_cast<const T*>(nullptr)).
template <class T>
class Collector {
 public:
  static const Schema& schema() { return schema_of(static_cast<const T*>(nullptr)); }

  Result<void> load(const Document& document) { return load(document, document.root()); }
  // The same from a part of a file.
  Result<void> load(const Document& document, const Node& node) {
    source_ = document.file();
    return read(document, node, schema(), &value_, places_);
  }
  Result<void> load_entry(const Document& document, const Node& key, const Node& value) {
    return read_entry(document, key, value, key.text, schema(), &value_, places_);
  }
  // `key` is a setting's; `place` what a message begins with, "--clusters:".
  Result<void> set(const std::string& key, const std::string& text, const std::string& place);

  Result<T> finish() const {
    if (const Result<void> done = check(schema(), &value_, places_, source_); !done) return done.error();
    return value_;
  }
  // What has been said so far, whether it holds together or not.
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
