// YAML files that people write, and the words in which their mistakes are told: file:line:column, key, cure.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

// The whole of a text file.
Result<std::string> read_text_file(const std::string& path);

// The one document that `text` is; null if it says nothing. `name` is the file's, for errors.
Result<YAML::Node> read_yaml(const std::string& text, const std::string& name);

// "file:line:column"
std::string place_in(const std::string& file, const YAML::Node& node);

// "file:line:column: key 'key': text"
Error wrong_key(const std::string& file, const YAML::Node& node, const std::string& key,
                const std::string& text);

// What to say of a word that is none of `known`.
std::string not_known(const std::string& word, const std::vector<std::string>& known);

}  // namespace braid::cli
