// Every setting that is declared: its default is allowed, it has help and a name of its own, and its value
// comes back from every view as it went in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>

#include "base/json.h"
#include "settings/cost_model.h"
#include "settings/node.h"
#include "settings/reader.h"
#include "settings/run.h"
#include "settings/text.h"
#include "settings/value.h"
#include "settings/views/json.h"
#include "settings/views/yaml.h"

namespace braid::settings {
namespace {

// A struct with a schema, and a default one of it.
struct Root {
  std::string name;
  const Schema* schema;
  std::function<std::shared_ptr<void>()> make;
};

template <class T>
Root root(std::string name, const Schema& schema) {
  return {std::move(name), &schema, [] { return std::make_shared<T>(); }};
}

// The entries of the lists in what `inside` finds within the root.
void add_lists(std::vector<Root>& all, const Root& root, const Schema& schema,
               const std::function<void*(void*)>& inside) {
  for (const Section& section : schema.sections)
    add_lists(all, root, *section.schema,
              [inside, &section](void* whole) { return section.at(inside(whole)); });
  for (const List& list : schema.lists) {
    // An entry lives in its list, which lives in the root.
    Root entry{root.name + "." + std::string(list.name) + "[0]", list.schema, [root, inside, &list] {
                 const std::shared_ptr<void> whole = root.make();
                 return std::shared_ptr<void>(whole, list.append(inside(whole.get())));
               }};
    all.push_back(entry);
    add_lists(all, entry, *list.schema, [](void* whole) { return whole; });
  }
}

std::vector<Root> all_roots() {
  const std::vector<Root> tops = {root<NodeConfig>("node", kNodeSchema), root<RunConfig>("run", kRunSchema),
                                  root<CostModel>("model", kCostModelSchema)};
  std::vector<Root> all = tops;
  for (const Root& top : tops) add_lists(all, top, *top.schema, [](void* whole) { return whole; });
  return all;
}

// Texts that a setting may have, at the edges of what is allowed; its default where none is known.
std::vector<std::string> values_of(const Setting& s, const void* object) {
  std::vector<std::string> values = {text_of(s, object)};
  switch (s.kind) {
    case Kind::kWhole:
      values.push_back(std::to_string(s.least));
      values.push_back(std::to_string(s.most));
      if (s.automatic) values.emplace_back("auto");
      break;
    case Kind::kNumber:
      values.push_back(text_of_number(s.least_number));
      values.push_back(text_of_number(s.max_number));
      values.push_back(text_of_number((s.least_number + s.max_number) / 3));
      if (s.automatic_number) values.emplace_back("auto");
      break;
    case Kind::kTruth:
      values.insert(values.end(), {"true", "false"});
      break;
    case Kind::kWord:
      for (std::size_t i = 0; !s.word(i).empty(); ++i) values.emplace_back(s.word(i));
      break;
    case Kind::kText:
      if (s.fits == nullptr) values.emplace_back("a b: #c \"d\"");
      break;
  }
  return values;
}

// A text that means the same as `text` for this setting, as the setting shows it.
std::string normal(const Setting& s, void* object, const std::string& text) {
  EXPECT_EQ(assign(s, object, text), "") << text;
  return text_of(s, object);
}

// A file that says this and nothing else.
std::string as_yaml(const Setting& s, const std::string& key, const std::string& text) {
  std::string value = s.kind == Kind::kText ? nlohmann::json(text).dump() : text;
  if (s.sourced) value = "{value: " + value + ", source: here}";
  std::string yaml;
  std::size_t closing = 0, at = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', at)) {
    yaml += key.substr(at, dot - at) + ": {";
    at = dot + 1;
    ++closing;
  }
  return yaml + key.substr(at) + ": " + value + std::string(closing, '}') + "\n";
}

TEST(Declarations, NamesAreUniqueInTheirSectionAndOptionsInTheirRoot) {
  for (const Root& root : all_roots()) {
    std::set<std::string> keys, options;
    for (const Listed& listed : all_settings(*root.schema)) {
      SCOPED_TRACE(root.name + "." + listed.key);
      EXPECT_TRUE(keys.insert(listed.key).second);
      const std::string option(listed.setting->option);
      if (option.empty()) continue;
      EXPECT_EQ(option.substr(0, 2), "--");
      // The same word may be of live runs here and of simulations there.
      EXPECT_TRUE(options.insert(option + std::to_string(static_cast<int>(listed.setting->scope))).second);
    }
  }
}

TEST(Declarations, EverySettingHasHelpAndAllowedValues) {
  for (const Root& root : all_roots()) {
    for (const Listed& listed : all_settings(*root.schema)) {
      SCOPED_TRACE(root.name + "." + listed.key);
      EXPECT_FALSE(listed.setting->help.empty());
      EXPECT_FALSE(allowed(*listed.setting).empty());
      EXPECT_FALSE(listed.setting->help.ends_with('.')) << "a phrase, not a sentence";
    }
  }
}

TEST(Declarations, EveryDefaultIsAllowed) {
  for (const Root& root : all_roots()) {
    const std::shared_ptr<void> object = root.make();
    for (const Listed& listed : all_settings(*root.schema)) {
      SCOPED_TRACE(root.name + "." + listed.key);
      // A setting that every file must have has none, and neither has one whose bounds leave zero out.
      const std::string value = text_of(*root.schema, object.get(), listed.key);
      // A text that is not there is none.
      const bool is_absent = listed.setting->kind == Kind::kText && value.empty();
      if (listed.setting->required || is_absent || (root.name.ends_with("]") && value == "0")) continue;
      EXPECT_EQ(problem_of(*listed.setting, value), "");
    }
  }
}

TEST(Declarations, InvalidValuesAreRefusedAndChangeNothing) {
  for (const Root& root : all_roots()) {
    for (const Listed& listed : all_settings(*root.schema)) {
      SCOPED_TRACE(root.name + "." + listed.key);
      const std::shared_ptr<void> object = root.make();
      const Found found = find_setting(*root.schema, object.get(), listed.key);
      const Setting& s = *found.setting;
      const std::string before = text_of(s, found.object);
      std::vector<std::string> wrong = {"here\nthere"};
      if (s.kind != Kind::kText)
        wrong.insert(wrong.end(), {"", "!", "1e400", "-99999999999999999999", "nan"});
      if (s.kind == Kind::kWhole) {
        wrong.push_back(std::to_string(s.least - 1));
        if (s.most != ~std::uint64_t{0}) wrong.push_back(std::to_string(s.most + 1));
        wrong.insert(wrong.end(), {"1.5", "0x10", "+5", " 5", "5 ", "18446744073709551616"});
      }
      if (s.kind == Kind::kNumber)
        wrong.insert(wrong.end(),
                     {text_of_number(s.max_number + 1), text_of_number(s.least_number - 1), "inf"});
      for (const std::string& text : wrong) {
        EXPECT_NE(assign(s, found.object, text), "") << text;
        EXPECT_EQ(text_of(s, found.object), before) << text;
      }
    }
  }
}

TEST(Declarations, EveryValueIsUnchangedThroughYamlJsonAndText) {
  for (const Root& root : all_roots()) {
    for (const Listed& listed : all_settings(*root.schema)) {
      const std::shared_ptr<void> first = root.make();
      for (const std::string& value :
           values_of(*listed.setting, find_setting(*root.schema, first.get(), listed.key).object)) {
        SCOPED_TRACE(root.name + "." + listed.key + ": " + value);
        if (problem_of(*listed.setting, value) != "") continue;  // the default of what a file must have
        const std::shared_ptr<void> object = root.make();
        const Found in_text = find_setting(*root.schema, object.get(), listed.key);
        const std::string shown_value = normal(*in_text.setting, in_text.object, value);

        Places places;
        const std::shared_ptr<void> from_yaml = root.make();
        const Result<Document> yaml = parse_yaml(as_yaml(*listed.setting, listed.key, value), "s.yaml");
        ASSERT_TRUE(yaml.ok()) << yaml.error().text;
        const Node::Entry entry = yaml->root().entries.at(0);
        const Result<void> read_yaml = read_entry(*yaml, *entry.key, *entry.value, entry.key->text,
                                                  *root.schema, from_yaml.get(), places);
        // Other keys that the section requires are not this setting's matter.
        EXPECT_THAT(read_yaml.ok() ? "" : read_yaml.error().text,
                    testing::AnyOf("", testing::HasSubstr("add it")));
        EXPECT_EQ(text_of(*root.schema, from_yaml.get(), listed.key), shown_value);
        EXPECT_TRUE(places.contains(listed.key));

        if (listed.setting->sourced) continue;  // a report of measurements has no sources
        const std::shared_ptr<void> from_json = root.make();
        const Result<Document> json = parse_json(to_json(*root.schema, object.get()).dump(), "s.json");
        ASSERT_TRUE(json.ok()) << json.error().text;
        for (const Node::Entry& said : json->root().entries) {
          // Other keys that the file requires, but an empty object lacks, are not this setting's matter.
          if (const Result<void> done = read_entry(*json, *said.key, *said.value, said.key->text,
                                                   *root.schema, from_json.get(), places);
              !done) {
            EXPECT_THAT(done.error().text, testing::Not(testing::HasSubstr("'" + listed.key + "'")));
          }
        }
        EXPECT_EQ(text_of(*root.schema, from_json.get(), listed.key), shown_value);
      }
    }
  }
}

TEST(Declarations, OnlyAgreedSettingsChangeTheHash) {
  const std::uint64_t before = agreed_hash(TransportConfig{});
  int agreed = 0;
  for (const Setting& s : kTransportSchema.settings) {
    TransportConfig t;
    for (const std::string& value : values_of(s, &t)) {
      if (normal(s, &t, value) == text_of(s, std::make_unique<TransportConfig>().get())) continue;
      EXPECT_EQ(agreed_hash(t) != before, s.agreed) << s.name << ": " << value;
    }
    agreed += s.agreed ? 1 : 0;
  }
  EXPECT_EQ(agreed, 4) << "MTU, fragmentation, window, all pairs";
}

TEST(Transport, MaxRtoMayExceedPathDeath) {
  TransportConfig alewife;
  alewife.min_rto_us = 20'000;
  alewife.max_rto_us = 1'000'000;
  alewife.ack_delay_us = 500;
  EXPECT_EQ(find_conflict(kTransportSchema, &alewife), std::nullopt);
}

TEST(Transport, EachRelationIsBrokenByItself) {
  const auto broken = [](const std::function<void(TransportConfig&)>& change) {
    TransportConfig t;
    change(t);
    const std::optional<Conflict> conflict = find_conflict(kTransportSchema, &t);
    return conflict ? conflict->keys.front() + ": " + conflict->text : "(holds)";
  };
  using testing::StartsWith;
  EXPECT_EQ(broken([](TransportConfig&) {}), "(holds)");
  EXPECT_THAT(broken([](TransportConfig& t) { t.max_rto_us = 400; }),
              StartsWith("min_rto_us: min_rto_us (500) is"));
  EXPECT_THAT(broken([](TransportConfig& t) { t.ack_delay_us = 500; }),
              StartsWith("ack_delay_us: ack_delay_us (500) must be shorter than min_rto_us (500)"));
  EXPECT_EQ(broken([](TransportConfig& t) { t.ack_delay_us = 499; }), "(holds)");
  EXPECT_THAT(broken([](TransportConfig& t) { t.path_death_ms = 1; }),
              StartsWith("path_death_ms: path_death_ms (1"));
  EXPECT_EQ(broken([](TransportConfig& t) { t.path_death_ms = 2; }), "(holds)");
  EXPECT_THAT(broken([](TransportConfig& t) { t.peer_death_ms = 500; }),
              StartsWith("peer_death_ms: peer_death_ms"));
}

TEST(Channel, DescriptorsAreAPowerOfTwo) {
  NodeConfig node;
  node.address = "10.0.0.1";
  node.listen_address = "@b";
  EXPECT_TRUE(node.validate().ok());
  node.channel.send_descriptors = 256;
  EXPECT_TRUE(node.validate().ok());
  node.channel.send_descriptors = 300;
  EXPECT_EQ(node.validate().error().text,
            "key 'channel.send_descriptors': 300 is not a power of two; take 256 or 512");
}

TEST(Node, AutoIsRefusedForANode) {
  NodeConfig node;
  node.address = "10.0.0.1";
  node.listen_address = "@b";
  node.transport.mtu_bytes = 0;
  EXPECT_THAT(node.validate().error().text,
              testing::HasSubstr("key 'transport.mtu_bytes': auto is not possible for a node"));
  node.transport.mtu_bytes = 1500;
  node.idle.spins = IdleConfig::kAutomaticSpins;
  EXPECT_THAT(node.validate().error().text,
              testing::HasSubstr("key 'idle.spins': auto is not possible for a node"));
}

}  // namespace
}  // namespace braid::settings
