// Settings as JSON: what programs write and read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "settings/document.h"
#include "settings/reader.h"
#include "settings/setting.h"

namespace braid::settings {

// No input throws.
Result<Document> parse_json(const std::string& text, const std::string& name);

// All settings of `object`, "auto" as that word.
nlohmann::json to_json(const Schema& schema, const void* object);
// Of one setting: a number, true or false, or a string.
nlohmann::json to_json(const Setting& setting, const void* object);

template <class T>
auto json_of(const T& value) {
  return to_json(schema_of(&value), &value);
}
// Of the setting with this key, in full.
nlohmann::json json_of(const Schema& schema, const void* object, const std::string& key);

// A T, checked; `what` names the source in messages.
template <class T>
Result<T> from_json(const std::string& text, const std::string& what) {
  const Result<Document> document = parse_json(text, what);
  if (!document) return document.error();
  Collector<T> collector;
  if (const Result<void> done = collector.load(*document); !done) return done.error();
  return collector.finish();
}

}  // namespace braid::settings
