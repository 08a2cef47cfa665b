// Reads and writes settings as JSON, for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "settings/document.h"
#include "settings/reader.h"
#include "settings/setting.h"

namespace braid::settings {

// Throws for no input.
Result<Document> parse_json(const std::string& text, const std::string& name);

// All settings of `object`; "auto" is written as that word.
nlohmann::json to_json(const Schema& schema, const void* object);
// The value of one setting: a number, true or false, or a string.
nlohmann::json to_json(const Setting& setting, const void* object);

template <class T>
auto json_of(const T& value) {
  return to_json(schema_of(&value), &value);
}
// Of the entries of a list.
nlohmann::json to_json(const List& list, void* object);
// The value of the setting, or the entries of the list, with this full key. There must be one.
nlohmann::json json_of(const Schema& schema, const void* object, const std::string& key);

// Reads a T and checks it; `what` names the source in messages.
template <class T>
Result<T> from_json(const std::string& text, const std::string& what) {
  const Result<Document> document = parse_json(text, what);
  if (!document) return document.error();
  Collector<T> collector;
  if (const Result<void> done = collector.load(*document); !done) return done.error();
  return collector.finish();
}

}  // namespace braid::settings
