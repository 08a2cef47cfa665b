// A file of settings after parsing, whatever it was written in: a tree of maps, lists and scalars that know
// where they stand. yaml.h and json.h make it, and have already refused what is too long, too deep, or there
// twice in one map; reader.h turns it into structs.
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

inline constexpr std::size_t kMaxFileBytes = 1u << 20;  // the longest of ours has 20 KB
inline constexpr std::size_t kMaxDepth = 32;            // ours need 5

struct Node {
  enum class Kind : std::uint8_t { kNull, kScalar, kMap, kList };
  struct Entry;

  Kind kind = Kind::kNull;
  bool quoted = false;       // a scalar that says that it is a text
  int line = 0, column = 0;  // from 1; 0: not known
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

// Owns its nodes. May be moved; nodes stay where they are.
class Document {
 public:
  // `file` is for messages. `types_are_exact`: a text must be quoted (JSON).
  Document(std::string file, bool types_are_exact)
      : file_(std::move(file)), types_are_exact_(types_are_exact) {}

  Node& add() { return nodes_.emplace_back(); }
  void set_root(const Node* root) { root_ = root; }

  const std::string& file() const { return file_; }
  bool types_are_exact() const { return types_are_exact_; }
  // Null if the file says nothing.
  const Node& root() const { return *root_; }

  // "file:line:column"; "file" where that is not known.
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

// The whole of a text file that is no longer than kMaxFileBytes.
Result<std::string> read_text_file(const std::string& path);

// Builds a Document from a parser's events, and refuses what is too deep or there twice. The first problem
// ends it: the parser need not go on once an event returned false.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(Document& document) : document_(document) {}

  bool begin(Node::Kind kind, int line, int column);  // a map or a list
  bool end();
  bool scalar(std::string text, bool quoted, int line, int column);
  bool null(int line, int column);
  // The node that stands elsewhere as well, as if it were written here.
  bool again(const Node* node, int line, int column);
  // A number that no value can hold, or the like, at the place of the next node.
  bool refuse(const std::string& text, int line, int column);

  // The node that the last event ended or began.
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
