// Reads settings from YAML, which people write. Only yaml.cpp uses yaml-cpp.
#pragma once

#include <string>

#include "base/result.h"
#include "settings/document.h"
#include "settings/reader.h"

namespace braid::settings {

// Parses `text`, which may have one YAML document; the root is null if it is empty. `name` is the file's name
// in messages. Throws for no input.
Result<Document> parse_yaml(const std::string& text, const std::string& name);

// Adds the settings of a YAML text, or of a file, to `collector`.
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
