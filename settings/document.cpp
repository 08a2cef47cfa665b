#include "settings/document.h"

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "settings/text.h"

namespace braid::settings {

std::string Document::place(const Node& node) const {
  return node.line == 0 ? file_ : fmt::format("{}:{}:{}", file_, node.line, node.column);
}

Error Document::wrong(const Node& node, const std::string& key, const std::string& text) const {
  return key.empty() ? error("{}: {}", place(node), text)
                     : error("{}: key '{}': {}", place(node), shown(key), text);
}

std::string opened_path(const std::string& path) {
  return path == kStandardInput ? "/dev/stdin" : path;
}

Result<std::string> read_text_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(opened_path(path), ignored))
    return error("{}: cannot be read (it is a folder); name a file in it", shown(path));
  std::ifstream file(opened_path(path), std::ios::binary);
  if (!file)
    return error("{}: cannot be read ({}); name a readable file, e.g. one of configs/", shown(path),
                 std::strerror(errno));
  // One byte more than is allowed shows that the file is too long.
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return error("{}: cannot be read to its end ({})", shown(path), std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes)
    return error("{}: is longer than {} bytes; no configuration is", shown(path), kMaxFileBytes);
  return text;
}

// "transport.mtu_bytes", "peers[1].link"
std::string DocumentBuilder::path_of_next() const {
  if (open_.empty()) return "";
  const Level& level = open_.back();
  if (level.node->is_list()) return fmt::format("{}[{}]", level.path, level.node->items.size());
  if (level.key == nullptr) return level.path;
  return level.path.empty() ? level.key->text : level.path + "." + level.key->text;
}

bool DocumentBuilder::refuse(const std::string& text, int line, int column) {
  Node here;
  here.line = line;
  here.column = column;
  if (!problem_) problem_ = document_.wrong(here, path_of_next(), text);
  return false;
}

Node& DocumentBuilder::make(Node::Kind kind, int line, int column) {
  Node& node = document_.add();
  node.kind = kind;
  node.line = line;
  node.column = column;
  return node;
}

// Puts the node where the parser is: root, item of a list, key or value.
bool DocumentBuilder::put(const Node* node, int line, int column) {
  if (problem_) return false;
  last_ = node;
  if (open_.empty()) {
    document_.set_root(node);
    return true;
  }
  Level& level = open_.back();
  if (level.node->is_list()) {
    level.node->items.push_back(node);
  } else if (level.key != nullptr) {
    level.node->entries.push_back({level.key, node});
    level.key = nullptr;
  } else {
    if (!node->is_scalar()) return refuse("a key must be one word", line, column);
    level.key = node;
    if (!level.keys.insert(node->text).second)
      return refuse("is given twice; remove one of them", line, column);
  }
  return true;
}

bool DocumentBuilder::begin(Node::Kind kind, int line, int column) {
  if (problem_) return false;
  if (open_.size() == kMaxDepth)
    return refuse(fmt::format("is nested deeper than {} levels; no setting is", kMaxDepth), line, column);
  Node& node = make(kind, line, column);
  std::string path = path_of_next();
  if (!put(&node, line, column)) return false;
  open_.push_back({.node = &node, .path = std::move(path)});
  return true;
}

bool DocumentBuilder::end() {
  if (problem_) return false;
  last_ = open_.back().node;
  open_.pop_back();
  return true;
}

bool DocumentBuilder::scalar(std::string text, bool quoted, int line, int column) {
  if (problem_) return false;
  Node& node = make(Node::Kind::kScalar, line, column);
  node.text = std::move(text);
  node.quoted = quoted;
  return put(&node, line, column);
}

bool DocumentBuilder::null(int line, int column) {
  return !problem_ && put(&make(Node::Kind::kNull, line, column), line, column);
}

bool DocumentBuilder::alias(const Node* node, int line, int column) {
  return put(node, line, column);
}

bool DocumentBuilder::is_open(const Node* node) const {
  return std::any_of(open_.begin(), open_.end(), [&](const Level& level) { return level.node == node; });
}

}  // namespace braid::settings
