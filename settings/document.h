// A parsed file of settings, YAML or JSON: a tree of maps, lists and scalars with their places in the file.
// yaml.h and json.h make it; they refuse a file that is too long or too deep, and a key that a map has twice.
// reader.h turns the tree into structs.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace braid::settings {

inline constexpr std::size_t kMaxFileBytes = 1u << 20;  // our longest file has 20 KB
inline constexpr std::size_t kMaxDepth = 32;            // our files need 5

struct Node {
  enum class Kind : std::uint8_t { kNull, kScalar, kMap, kList };
  struct Entry;

  Kind kind = Kind::kNull;
  bool quoted = false;       // a scalar in quotes: a text
  int line = 0, column = 0;  // from 1; 0: unknown
  std::string text;          // of a scalar
  std::vector<Entry> entries;
  std::vector<const Node*> items;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
};
struct Node::Entry {
  const Node* key;  // a scalar
  const Node* value;
};

// Owns its nodes. Moving it leaves pointers to nodes valid.
class Document {
 public:
  // `file` is for messages. `types_are_exact`: a text must be quoted (JSON).
  Document(std::string file, bool types_are_exact)
      : file_(std::move(file)), types_are_exact_(types_are_exact) {}

  Node& add() { return nodes_.emplace_back(); }
  void set_root(const Node* root) { root_ = root; }

  const std::string& file() const { return file_; }
  bool types_are_exact() const { return types_are_exact_; }
  // A null node if the file is empty.
  const Node& root() const { return *root_; }

  // "file:line:column"; "file" where the line is unknown.
  std::string place(const Node& node) const;
  // "file:line:column: key 'key': text"
  Error wrong(const Node& node, const std::string& key, const std::string& text) const;

 private:
  static inline const Node kNothing;

  std::string file_;
  bool types_are_exact_;
  std::deque<Node> nodes_;
  const Node* root_ = &kNothing;
};

// Named in place of a file that is read.
inline constexpr char kStandardInput[] = "-";
// The file to open for it; of any other name the name itself.
std::string opened_path(const std::string& path);

// The contents of a text file of at most kMaxFileBytes; kStandardInput: of standard input.
Result<std::string> read_text_file(const std::string& path);

// Builds a Document from a parser's events. It refuses a tree that is too deep and a key that a map has twice.
// An event returns false after the first problem; the parser may then stop.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(Document& document) : document_(document) {}

  bool begin(Node::Kind kind, int line, int column);  // a map or a list
  bool end();
  bool scalar(std::string text, bool quoted, int line, int column);
  bool null(int line, int column);
  // An alias: `node`, which was written elsewhere, is used here too.
  bool alias(const Node* node, int line, int column);
  // Reports a problem of the next node, for example a number that no type can hold. Returns false.
  bool refuse(const std::string& text, int line, int column);

  // The node of the last event.
  const Node* last() const { return last_; }
  bool is_open(const Node* node) const;
  const std::optional<Error>& problem() const { return problem_; }

 private:
  struct Level {
    Node* node;
    const Node* key = nullptr;  // of a map: the value is next
    std::set<std::string> keys = {};
    std::string path;  // of the level itself: "transport", "peers[1]"
  };
  Node& make(Node::Kind kind, int line, int column);
  bool put(const Node* node, int line, int column);
  std::string path_of_next() const;

  Document& document_;
  std::vector<Level> open_;
  const Node* last_ = nullptr;
  std::optional<Error> problem_;
};

}  // namespace braid::settings
