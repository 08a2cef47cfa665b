#include "tools/braid/yaml_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/braid/run_config.h"

namespace braid::cli {

Result<std::string> read_text_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return error("{}: cannot be read (it is a folder); name a YAML file in it", path);
  std::ifstream file(path);
  if (!file)
    return error("{}: cannot be read ({}); name a YAML file, e.g. one of configs/", path,
                 std::strerror(errno));
  std::stringstream text;
  text << file.rdbuf();
  if (file.bad()) return error("{}: cannot be read to its end ({})", path, std::strerror(errno));
  return text.str();
}

Result<YAML::Node> read_yaml(const std::string& text, const std::string& name) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      return error("{}: there are {} documents ('---') in it; a configuration is one", name,
                   documents.size());
    return documents.empty() ? YAML::Node() : documents.front();
  } catch (const YAML::Exception& e) {
    return error("{}:{}:{}: not YAML: {}", name, e.mark.line + 1, e.mark.column + 1, e.msg);
  }
}

std::string place_in(const std::string& file, const YAML::Node& node) {
  return fmt::format("{}:{}:{}", file, node.Mark().line + 1, node.Mark().column + 1);
}

Error wrong_key(const std::string& file, const YAML::Node& node, const std::string& key,
                const std::string& text) {
  return error("{}: key '{}': {}", place_in(file, node), key, text);
}

std::string not_known(const std::string& word, const std::vector<std::string>& known) {
  if (const auto near = nearest(word, known)) return "is not known; did you mean '" + *near + "'?";
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return "is not known; known here: " + list;
}

}  // namespace braid::cli
