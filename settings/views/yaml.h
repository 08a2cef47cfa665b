// YAML as settings are written in by people. The one place that knows yaml-cpp.
#pragma once

#include <string>

#include "base/result.h"
#include "settings/document.h"
#include "settings/reader.h"

namespace braid::settings {

// The one document that `text` is; its root is null if it says nothing. `name` is the file's, for messages.
// No input throws.
Result<Document> parse_yaml(const std::string& text, const std::string& name);

// Into what is collected already.
template <class T>
Result<void> load_yaml(Collector<T>& collector, const std::string& text, const std::string& name) {
  const Result<Document> document = parse_yaml(text, name);
  if (!document) return document.error();
  return collector.load(*document);
}
template <class T>
Result<void> load_yaml_file(Collector<T>& collector, const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  if (!text) return text.error();
  return load_yaml(collector, *text, path);
}

}  // namespace braid::settings
