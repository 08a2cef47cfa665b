// Files as they come: whatever is in them, the answer is a tree or one line that says what is wrong where.
#include "settings/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "settings/text.h"
#include "settings/views/json.h"
#include "settings/views/yaml.h"

namespace braid::settings {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::string yaml_refusal(const std::string& text) {
  const Result<Document> document = parse_yaml(text, "s.yaml");
  return document.ok() ? "(accepted)" : document.error().text;
}
std::string json_refusal(const std::string& text) {
  const Result<Document> document = parse_json(text, "s.json");
  return document.ok() ? "(accepted)" : document.error().text;
}

TEST(Yaml, EveryNodeHasItsLineAndColumn) {
  const Result<Document> document = parse_yaml("a: 1\nb:\n  - {c: 'x'}\n  -\n", "s.yaml");
  ASSERT_TRUE(document.ok()) << document.error().text;
  const Node& root = document->root();
  ASSERT_EQ(root.entries.size(), 2u);
  EXPECT_EQ(root.entries[0].value->text, "1");
  EXPECT_FALSE(root.entries[0].value->quoted);
  EXPECT_EQ(document->place(*root.entries[0].value), "s.yaml:1:4");
  const Node& list = *root.entries[1].value;
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_TRUE(list.items[0]->entries[0].value->quoted);
  EXPECT_EQ(document->place(*list.items[0]->entries[0].key), "s.yaml:3:6");
  EXPECT_TRUE(list.items[1]->is_null());
}

TEST(Yaml, SecondDocumentIsRefused) {
  EXPECT_EQ(yaml_refusal("a: 1\n---\nb: 2\n"),
            "s.yaml: has several documents ('---'); a configuration has one");
  EXPECT_EQ(yaml_refusal("--- \na: 1\n"), "(accepted)");
  EXPECT_TRUE(parse_yaml("", "s.yaml")->root().is_null());
  EXPECT_TRUE(parse_yaml("# nothing\n", "s.yaml")->root().is_null());
}

TEST(Yaml, DuplicateKeyIsRefusedAtAnyDepth) {
  EXPECT_EQ(yaml_refusal("a: 1\na: 2\n"), "s.yaml:2:1: key 'a': is given twice; remove one of them");
  EXPECT_EQ(yaml_refusal("a:\n- {b: 1}\n- {b: 1, b: 2}\n"),
            "s.yaml:3:10: key 'a[1].b': is given twice; remove one of them");
  EXPECT_EQ(yaml_refusal("[1, 2]: 3\n"), "s.yaml:1:1: a key must be one word");
}

TEST(Yaml, AliasHasTheValueOfItsAnchor) {
  const Result<Document> document = parse_yaml("a: &x {b: 1}\nc: *x\n", "s.yaml");
  ASSERT_TRUE(document.ok()) << document.error().text;
  EXPECT_EQ(document->root().entries[0].value, document->root().entries[1].value);
  EXPECT_THAT(yaml_refusal("a: &x [*x]\n"),
              HasSubstr("key 'a[0]': is an alias of a node that contains the alias"));
  EXPECT_THAT(yaml_refusal("a: *x\n"), HasSubstr("not YAML"));
}

TEST(Yaml, RefusesWhatIsTooDeep) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(yaml_refusal(nested(kMaxDepth)), "(accepted)");
  EXPECT_THAT(yaml_refusal(nested(kMaxDepth + 1)), HasSubstr("is nested deeper than 32 levels"));
  EXPECT_THAT(yaml_refusal(nested(100'000)), HasSubstr("is nested deeper than 32 levels"));
  EXPECT_THAT(yaml_refusal("a: " + std::string(100'000, '{')), HasSubstr("s.yaml:1:"));
}

TEST(Yaml, RefusesWhatIsTooLong) {
  const std::string comment = "#" + std::string(kMaxFileBytes - 1, 'x');
  EXPECT_EQ(yaml_refusal(comment), "(accepted)");
  EXPECT_EQ(yaml_refusal(comment + "x"), "s.yaml: is longer than 1048576 bytes; no configuration is");
}

TEST(Yaml, ControlCharactersAreEscapedInMessages) {
  const std::string refused = yaml_refusal("\"a\\e[31mb\": 1\n\"a\\e[31mb\": 2\n");
  EXPECT_EQ(refused, "s.yaml:2:1: key 'a\\x1b[31mb': is given twice; remove one of them");
  const std::string name(5000, 'k');
  EXPECT_LT(yaml_refusal(name + ": 1\n" + name + ": 2\n").size(), 250u);
}

TEST(Json, KeepsNumbersAsTheyWereWritten) {
  const Result<Document> document = parse_json(
      R"({"a": 18446744073709551615, "b": 0.1, "c": "0.1", "d": true, "e": null, "f": -1})", "s.json");
  ASSERT_TRUE(document.ok()) << document.error().text;
  const auto& entries = document->root().entries;
  ASSERT_EQ(entries.size(), 6u);
  EXPECT_EQ(entries[0].value->text, "18446744073709551615");
  EXPECT_EQ(entries[1].value->text, "0.1");
  EXPECT_FALSE(entries[1].value->quoted);
  EXPECT_TRUE(entries[2].value->quoted);
  EXPECT_EQ(entries[3].value->text, "true");
  EXPECT_TRUE(entries[4].value->is_null());
  EXPECT_EQ(entries[5].value->text, "-1");
}

TEST(Json, NumberBeyondADoubleIsRefusedWithItsKey) {
  EXPECT_EQ(json_refusal(R"({"faults": {"loss": 1e400}})"),
            "s.json: key 'faults.loss': 1e400 is out of range");
  EXPECT_EQ(json_refusal(R"({"a": [1, -1e999]})"), "s.json: key 'a[1]': -1e999 is out of range");
}

TEST(Json, RefusesInputThatIsTooDeepTooLongDuplicatedOrNotJson) {
  EXPECT_THAT(json_refusal(std::string(100'000, '[')), HasSubstr("is nested deeper than 32 levels"));
  EXPECT_EQ(json_refusal(std::string(kMaxFileBytes + 1, ' ')),
            "s.json: is longer than 1048576 bytes; no configuration is");
  EXPECT_EQ(json_refusal(R"({"a": {"b": 1, "b": 1}})"),
            "s.json: key 'a.b': is given twice; remove one of them");
  for (const char* const text : {"", "{", "{} {}", "{'a': 1}", "{\"a\": 01}", "// no\n{}", "\xff"})
    EXPECT_THAT(json_refusal(text), StartsWith("s.json: not JSON")) << text;
}

// A parser of somebody else's, fed with what nobody meant: an answer each time, and never an exception.
TEST(Documents, AnyBytesAreParsedOrRefused) {
  const std::string yaml = "a: &x {b: [1, 'c', \"d\\n\"], e: |\n  f\n}\ng: *x\n? [h]\n: !!i j\n--- k\n%l\n";
  const std::string json = R"({"a": [1, -2.5e3, "b\u00e9\n"], "c": {"d": null, "e": true}})";
  Prng prng(7);
  for (const std::string& seed : {yaml, json}) {
    for (int i = 0; i < 20'000; ++i) {
      std::string text = seed;
      for (std::uint64_t changes = 1 + prng.next() % 4; changes > 0; --changes) {
        const std::size_t at = prng.next() % text.size();
        if (prng.next() % 2 == 0)
          text[at] = static_cast<char>(prng.next());
        else if (text.size() > 1)
          text.erase(at, 1 + prng.next() % 3);
      }
      for (const std::string& refused : {yaml_refusal(text), json_refusal(text)})
        for (const char c : refused) ASSERT_TRUE(c < 0 || (c >= ' ' && c != 0x7f)) << refused;
    }
  }
}

TEST(TextFile, IsReadUpToItsLimitOrRefused) {
  EXPECT_THAT(read_text_file("/nonexistent/s.yaml").error().text,
              StartsWith("/nonexistent/s.yaml: cannot be read (No such file or directory)"));
  EXPECT_THAT(read_text_file("/").error().text, StartsWith("/: cannot be read (it is a folder)"));
  EXPECT_THAT(read_text_file("/dev/zero").error().text,
              EndsWith("is longer than 1048576 bytes; no configuration is"));
  EXPECT_EQ(*read_text_file("/dev/null"), "");
}

TEST(Shown, ControlCharactersAreEscapedAndLongTextsAreCut) {
  EXPECT_EQ(shown("plain – Übung"), "plain – Übung");
  EXPECT_EQ(shown("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(shown(std::string("\0\x1b\x7f", 3)), "\\x00\\x1b\\x7f");
  EXPECT_EQ(shown("\xc2\x9b"), "\\xc2\\x9b") << "a control character beyond ASCII";
  EXPECT_EQ(shown("\xe2\x80\xae"), "\\xe2\\x80\\xae") << "turns a line round";
  EXPECT_EQ(shown("\xff\xc3"), "\\xff\\xc3") << "no UTF-8";
  EXPECT_LE(shown(std::string(1000, 'x')).size(), 130u);
  EXPECT_THAT(shown(std::string(1000, 'x')), AllOf(StartsWith("xxx"), EndsWith("…")));
}

}  // namespace
}  // namespace braid::settings
