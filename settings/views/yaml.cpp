#include "settings/views/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "settings/text.h"

namespace braid::settings {
namespace {

// Ends yaml-cpp's parser, which has no other way to stop early. Caught in this file.
struct Refused {};

class Events final : public YAML::EventHandler {
 public:
  explicit Events(Document& document) : builder_(document) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    require(builder_.null(mark.line + 1, mark.column + 1));
    remember(anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    const int line = mark.line + 1, column = mark.column + 1;
    if (found == anchors_.end() || builder_.is_open(found->second))
      require(builder_.refuse("is an alias of a node that contains the alias; write the value out", line,
                              column));
    require(builder_.alias(found->second, line, column));
  }
  // yaml-cpp's tag of a quoted scalar is "!".
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    require(builder_.scalar(value, tag == "!", mark.line + 1, mark.column + 1));
    remember(anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    require(builder_.begin(Node::Kind::kList, mark.line + 1, mark.column + 1));
    remember(anchor);
  }
  void OnSequenceEnd() override { require(builder_.end()); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    require(builder_.begin(Node::Kind::kMap, mark.line + 1, mark.column + 1));
    remember(anchor);
  }
  void OnMapEnd() override { require(builder_.end()); }

  const std::optional<Error>& problem() const { return builder_.problem(); }

 private:
  static void require(bool accepted) {
    if (!accepted) throw Refused();
  }
  void remember(YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = builder_.last();
  }

  DocumentBuilder builder_;
  std::map<YAML::anchor_t, const Node*> anchors_;
};

}  // namespace

Result<Document> parse_yaml(const std::string& text, const std::string& name) {
  if (text.size() > kMaxFileBytes)
    return error("{}: is longer than {} bytes; no configuration is", name, kMaxFileBytes);
  Document document(name, /*types_are_exact=*/false);
  Events events(document);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(events)) return document;
    Document second(name, false);
    Events more(second);
    if (parser.HandleNextDocument(more))
      return error("{}: has several documents ('---'); a configuration has one", name);
  } catch (const Refused&) {
    return *events.problem();
  } catch (const YAML::Exception& e) {
    return error("{}:{}:{}: not YAML: {}", name, e.mark.line + 1, e.mark.column + 1, shown(e.msg));
  }
  return document;
}

}  // namespace braid::settings
