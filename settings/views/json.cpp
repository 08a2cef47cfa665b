#include "settings/views/json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "settings/text.h"
#include "settings/value.h"

namespace braid::settings {
namespace {

using Json = nlohmann::json;

// Turns events of nlohmann's parser into events of DocumentBuilder. A number keeps its text.
class Events final : public nlohmann::json_sax<Json> {
 public:
  explicit Events(Document& document) : document_(document), builder_(document) {}

  bool null() override { return builder_.null(0, 0); }
  bool boolean(bool value) override { return builder_.scalar(value ? "true" : "false", false, 0, 0); }
  bool number_integer(number_integer_t value) override {
    return builder_.scalar(std::to_string(value), false, 0, 0);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return builder_.scalar(std::to_string(value), false, 0, 0);
  }
  bool number_float(number_float_t, const string_t& text) override {
    return builder_.scalar(text, false, 0, 0);
  }
  bool string(string_t& value) override { return builder_.scalar(value, true, 0, 0); }
  bool binary(binary_t&) override { return builder_.refuse("is not a text", 0, 0); }
  bool start_object(std::size_t) override { return builder_.begin(Node::Kind::kMap, 0, 0); }
  bool end_object() override { return builder_.end(); }
  bool start_array(std::size_t) override { return builder_.begin(Node::Kind::kList, 0, 0); }
  bool end_array() override { return builder_.end(); }
  bool key(string_t& name) override { return builder_.scalar(name, true, 0, 0); }
  bool parse_error(std::size_t byte, const std::string& token, const Json::exception& e) override {
    // Error 406: a number that a double cannot hold. The JSON itself is well-formed.
    if (e.id == 406) return builder_.refuse(fmt::format("{} is out of range", shown(token)), 0, 0);
    if (!malformed_)
      malformed_ = error("{}: not JSON: at byte {}: {}", document_.file(), byte, shown(e.what()));
    return false;
  }

  std::optional<Error> problem() const { return builder_.problem() ? builder_.problem() : malformed_; }

 private:
  Document& document_;
  DocumentBuilder builder_;
  std::optional<Error> malformed_;
};

}  // namespace

Result<Document> parse_json(const std::string& text, const std::string& name) {
  if (text.size() > kMaxFileBytes)
    return error("{}: is longer than {} bytes; no configuration is", name, kMaxFileBytes);
  Document document(name, /*types_are_exact=*/true);
  Events events(document);
  if (!Json::sax_parse(text, &events) || events.problem()) return *events.problem();
  return document;
}

Json to_json(const Setting& setting, const void* object) {
  const std::string text = text_of(setting, object);
  const bool is_bare = setting.kind == Kind::kTruth || (setting.kind == Kind::kWhole && text != "auto");
  if (setting.kind == Kind::kNumber && text != "auto") return number_of_text(text);
  return is_bare ? Json::parse(text) : Json(text);
}

Json to_json(const List& list, void* object) {
  Json entries = Json::array();
  for (std::size_t i = 0; i < list.size(object); ++i)
    entries.push_back(to_json(*list.schema, list.item(object, i)));
  return entries;
}

Json to_json(const Schema& schema, const void* object) {
  void* const from = const_cast<void*>(object);  // at() and item() serve readers and writers
  Json json = Json::object();
  for (const Setting& setting : schema.settings) json[std::string(setting.name)] = to_json(setting, object);
  for (const Section& section : schema.sections)
    json[std::string(section.name)] = to_json(*section.schema, section.at(from));
  for (const List& list : schema.lists) json[std::string(list.name)] = to_json(list, from);
  return json;
}

Json json_of(const Schema& schema, const void* object, const std::string& key) {
  void* const from = const_cast<void*>(object);
  if (const FoundList found = find_list(schema, from, key); found.list != nullptr)
    return to_json(*found.list, found.object);
  const Found found = find_setting(schema, from, key);
  return to_json(*found.setting, found.object);
}

}  // namespace braid::settings
