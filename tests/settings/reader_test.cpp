// From a tree to a struct: strict, with place, key and cure in what it says.
#include "settings/reader.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "settings/value.h"
#include "settings/views/json.h"
#include "settings/views/yaml.h"

namespace braid::settings {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

enum class Colour : std::uint8_t { kRed, kGreen };

struct Part {
  std::string name;
  double share = 0.5;
};
struct Inner {
  std::uint32_t length_us = 10;
  std::uint32_t limit = 0;  // 0: auto
  Colour colour = Colour::kRed;
};
struct Whole {
  unsigned count = 2;
  int fd = -1;
  bool strict = false;
  std::string text = "none";
  Inner inner;
  std::vector<Part> parts;
  std::map<std::string, double> units;
};

}  // namespace

template <>
struct Words<Colour> {
  static constexpr Word<Colour> kAll[] = {
      {"red", Colour::kRed}, {"crimson", Colour::kRed}, {"green", Colour::kGreen}};
};

namespace {

constexpr Setting kPartSettings[] = {
    declare<&Part::name>({.name = "name", .help = "its name", .required = true}),
    declare<&Part::share>({.name = "share", .help = "its share", .max_number = 1})};
constinit const Schema kPartSchema = {.settings = kPartSettings};

constexpr Setting kInnerSettings[] = {
    declare<&Inner::length_us>(
        {.name = "length_us", .unit = "us", .help = "how long", .least = 1, .most = 100}),
    declare<&Inner::limit>({.name = "limit", .help = "how much", .least = 5, .most = 50, .automatic = 0}),
    declare<&Inner::colour>({.name = "colour", .help = "which"})};
std::optional<Conflict> limit_holds(const Inner& inner) {
  if (inner.limit == 0 || inner.length_us <= inner.limit) return std::nullopt;
  return Conflict{{"length_us", "limit"}, fmt::format("{} is longer than {}", inner.length_us, inner.limit)};
}
constexpr Relation kInnerRelations[] = {relation<Inner, limit_holds>("length_us is at most limit")};
constinit const Schema kInnerSchema = {.settings = kInnerSettings, .relations = kInnerRelations};

constexpr Setting kWholeSettings[] = {
    declare<&Whole::count>(
        {.name = "count", .help = "how many", .least = 1, .most = 64, .beyond = ", no more"}),
    declare<&Whole::fd>({.name = "fd", .help = "a descriptor", .least = -1}),
    declare<&Whole::strict>({.name = "strict", .help = "strictly"}),
    declare<&Whole::text>({.name = "text", .help = "any text"})};
constexpr Section kWholeSections[] = {section<&Whole::inner>("inner", "Inside", kInnerSchema)};
constexpr List kWholeLists[] = {list<&Whole::parts>("parts", "its parts", "{name: a}", kPartSchema)};
constexpr NamedNumbers kWholeNamed[] = {{.name = "units",
                                         .help = "names and what a unit is",
                                         .value = {.name = "unit",
                                                   .help = "a unit",
                                                   .least_number = 0,
                                                   .max_number = 10,
                                                   .sourced = true,
                                                   .kind = Kind::kNumber},
                                         .insert = [](void* o, const std::string& key, double value) {
                                           static_cast<Whole*>(o)->units[key] = value;
                                         }}};
constinit const Schema kWholeSchema = {
    .settings = kWholeSettings, .sections = kWholeSections, .lists = kWholeLists, .named = kWholeNamed};

const Schema& schema_of(const Whole*) {
  return kWholeSchema;
}

Result<Whole> from_yaml(const std::string& text) {
  const Result<Document> document = parse_yaml(text, "s.yaml");
  if (!document) return document.error();
  Collector<Whole> collector;
  if (const Result<void> done = collector.load(*document); !done) return done.error();
  return collector.finish();
}
std::string refusal(const std::string& yaml) {
  const Result<Whole> whole = from_yaml(yaml);
  return whole.ok() ? "(accepted)" : whole.error().text;
}
std::string json_refusal(const std::string& text) {
  const Result<Whole> whole = from_json<Whole>(text, "s.json");
  return whole.ok() ? "(accepted)" : whole.error().text;
}

TEST(Reader, SetsOnlyTheNamedSettings) {
  const Result<Whole> whole = from_yaml(
      "count: 5\nfd: 7\ntext: '5'\ninner: {limit: auto, colour: crimson}\n"
      "parts:\n- {name: a}\n- {name: b, share: 0.25}\nunits: {x: {value: 2.5, source: here}}\n");
  ASSERT_TRUE(whole.ok()) << whole.error().text;
  EXPECT_EQ(whole->count, 5u);
  EXPECT_EQ(whole->fd, 7);
  EXPECT_FALSE(whole->strict);
  EXPECT_EQ(whole->text, "5");
  EXPECT_EQ(whole->inner.limit, 0u);
  EXPECT_EQ(whole->inner.length_us, 10u);
  ASSERT_EQ(whole->parts.size(), 2u);
  EXPECT_EQ(whole->parts[0].share, 0.5);
  EXPECT_EQ(whole->parts[1].share, 0.25);
  EXPECT_EQ(whole->units.at("x"), 2.5);
}

TEST(Reader, UnknownKeyIsRefusedWithTheNearestKnown) {
  EXPECT_EQ(refusal("cuont: 1\n"), "s.yaml:1:1: key 'cuont': is not known; did you mean 'count'?");
  EXPECT_EQ(refusal("inner: {length: 1}\n"),
            "s.yaml:1:9: key 'inner.length': is not known; did you mean 'inner.length_us'?");
  EXPECT_EQ(refusal("inner.colour: red\n"),
            "s.yaml:1:1: key 'inner.colour': stands in a section; write 'inner: {colour: …}'");
  EXPECT_EQ(refusal("colour: red\n"), "s.yaml:1:1: key 'colour': is not known; did you mean 'inner.colour'?");
  EXPECT_EQ(refusal("inner: {strict: true}\n"),
            "s.yaml:1:9: key 'inner.strict': is not known; did you mean 'strict'?");
  EXPECT_EQ(refusal("parts: [{name: a, shape: 1}]\n"),
            "s.yaml:1:19: key 'parts[0].shape': is not known; did you mean 'parts[0].share'?");
  EXPECT_EQ(refusal("parts: [{name: a, length_us: 1}]\n"),
            "s.yaml:1:19: key 'parts[0].length_us': is not known; known here: name, share");
  EXPECT_EQ(
      refusal("xyzzyplugh: 1\n"),
      "s.yaml:1:1: key 'xyzzyplugh': is not known; known here: count, fd, strict, text, inner, parts, units");
}

TEST(Reader, RefusesOtherKindsOfValues) {
  EXPECT_EQ(refusal("count: \"2\"\n"),
            "s.yaml:1:8: key 'count': \"2\" is a string; write it without quotes; allowed: 1 to 64");
  EXPECT_EQ(refusal("count:\n"), "s.yaml:1:1: key 'count': has no value; allowed: 1 to 64");
  EXPECT_EQ(refusal("count: [1]\n"),
            "s.yaml:1:8: key 'count': is a list where one value is expected; allowed: 1 to 64");
  EXPECT_EQ(refusal("count: {a: 1}\n"),
            "s.yaml:1:8: key 'count': is a section where one value is expected; allowed: 1 to 64");
  EXPECT_EQ(refusal("inner: 3\n"),
            "s.yaml:1:1: key 'inner': is a section; put its keys below it: length_us, limit, colour");
  EXPECT_EQ(refusal("parts: 3\n"), "s.yaml:1:8: key 'parts': must be a list of entries such as '{name: a}'");
  EXPECT_EQ(refusal("parts: [3]\n"), "s.yaml:1:9: key 'parts[0]': must be '{name: a}'");
  EXPECT_EQ(refusal("parts: [{share: 1}]\n"), "s.yaml:1:9: key 'parts[0]': has no 'name'; add it: its name");
  EXPECT_EQ(refusal("- 1\n"), "s.yaml:1:1: the file must be a list of 'key: value' lines");
}

TEST(Reader, RefusesValuesOutOfBounds) {
  EXPECT_EQ(refusal("count: 0\n"), "s.yaml:1:8: key 'count': 0 is out of range; allowed: 1 to 64");
  EXPECT_EQ(refusal("count: 65\n"), "s.yaml:1:8: key 'count': 65 is out of range; allowed: 1 to 64, no more");
  EXPECT_EQ(refusal("fd: -2\n"), "s.yaml:1:5: key 'fd': -2 is out of range; allowed: -1 to 2147483647");
  EXPECT_EQ(refusal("inner: {limit: 4}\n"),
            "s.yaml:1:16: key 'inner.limit': '4' is not allowed; allowed: auto, or 5 to 50");
  EXPECT_EQ(refusal("inner: {colour: blue}\n"),
            "s.yaml:1:17: key 'inner.colour': 'blue' is not allowed; allowed: red, crimson, green");
  EXPECT_EQ(refusal("parts: [{name: a, share: 1e400}]\n"),
            "s.yaml:1:26: key 'parts[0].share': 1e400 is out of range; allowed: 0 to 1");
  EXPECT_EQ(refusal("text: \"a\\nb\"\n"),
            "s.yaml:1:7: key 'text': a text with control characters is not allowed; allowed: a text");
}

TEST(Reader, MeasurementWithoutSourceIsRefused) {
  const std::string cure = "needs a value and its source: {value: 100, source: \"where it is from\"}";
  EXPECT_EQ(refusal("units: {x: 3}\n"), "s.yaml:1:9: key 'units.x': " + cure);
  EXPECT_EQ(refusal("units: {x: {value: 3}}\n"), "s.yaml:1:9: key 'units.x': " + cure);
  EXPECT_EQ(refusal("units: {x: {value: 3, source: ''}}\n"), "s.yaml:1:9: key 'units.x': " + cure);
  EXPECT_EQ(refusal("units: {x: {value: 30, source: a}}\n"),
            "s.yaml:1:20: key 'units.x': 30 is out of range; allowed: 0 to 10");
  EXPECT_EQ(refusal("units: {x: {valu: 3, source: a}}\n"),
            "s.yaml:1:13: key 'units.x.valu': is not known; known here: value, source");
}

TEST(Reader, BrokenRelationNamesTheKeyThatWasGiven) {
  EXPECT_EQ(refusal("inner: {limit: 5}\n"), "s.yaml:1:9: key 'inner.limit': 10 is longer than 5");
  EXPECT_EQ(refusal("inner: {limit: 5, length_us: 6}\n"),
            "s.yaml:1:19: key 'inner.length_us': 6 is longer than 5");
}

TEST(Reader, JsonTextsMustBeQuoted) {
  EXPECT_EQ(json_refusal(R"({"text": 5})"),
            "s.json: key 'text': 5 is not a string; write it in quotes; allowed: a text");
  EXPECT_EQ(json_refusal(R"({"inner": {"limit": "auto", "colour": "green"}, "strict": true})"), "(accepted)");
  EXPECT_EQ(json_refusal(R"({"strict": 1})"),
            "s.json: key 'strict': '1' is not allowed; allowed: true, false");
  EXPECT_EQ(json_refusal(R"({"strict": "true"})"),
            "s.json: key 'strict': \"true\" is a string; write it without quotes; allowed: true, false");
  EXPECT_EQ(json_refusal("[]"), "s.json: must be an object {…}");
}

TEST(Collector, LastPlaceWinsAndIsReported) {
  const Result<Document> document = parse_yaml("count: 4\ninner: {limit: 20}\n", "s.yaml");
  Collector<Whole> collector;
  ASSERT_TRUE(collector.load(*document).ok());
  ASSERT_TRUE(collector.set("count", "8", "--count:").ok());
  EXPECT_EQ(collector.finish()->count, 8u);
  EXPECT_EQ(collector.given().at("count"), "--count:");
  EXPECT_EQ(collector.given().at("inner.limit"), "s.yaml:2:9: key 'inner.limit':");
  EXPECT_FALSE(collector.is_given("inner.length_us"));
  EXPECT_EQ(collector.set("count", "99", "--count:").error().text,
            "--count: 99 is out of range; allowed: 1 to 64, no more");
  ASSERT_TRUE(collector.set("inner.length_us", "30", "--length:").ok());
  EXPECT_EQ(collector.finish().error().text, "--length: 30 is longer than 20");
}

TEST(Settings, AreListedWithTheirKeysInFull) {
  std::vector<std::string> keys;
  for (const Listed& listed : all_settings(kWholeSchema)) keys.push_back(listed.key);
  EXPECT_THAT(keys,
              ElementsAre("count", "fd", "strict", "text", "inner.length_us", "inner.limit", "inner.colour"));
  EXPECT_EQ(find_setting(kWholeSchema, "inner.colour"), &kInnerSettings[2]);
  EXPECT_EQ(find_setting(kWholeSchema, "inner"), nullptr);
  EXPECT_EQ(find_setting(kWholeSchema, "inner.count"), nullptr);
  EXPECT_EQ(find_setting(kWholeSchema, "outer.count"), nullptr);
}

TEST(Words, FirstWordOfAValueIsWritten) {
  Inner inner;
  EXPECT_EQ(assign(kInnerSettings[2], &inner, "crimson"), "");
  EXPECT_EQ(text_of(kInnerSettings[2], &inner), "red");
  EXPECT_THAT(allowed(kInnerSettings[2]), HasSubstr("red, crimson, green"));
}

}  // namespace
}  // namespace braid::settings
