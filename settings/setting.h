// The declaration of a setting: its name, kind, unit, bounds, help, and the struct member that holds its value.
// The tables of declarations (transport.cpp, node.cpp, run.cpp, …) consist of these. Files, options, help, the
// reference page and configs/default.yaml are views of the tables (reader.h, views/,
// tools/braid/command_line/settings_options.h), so all of them know the same settings.
//
//   Schema ── settings   scalars: a whole number, a number, true or false, a word, a text
//          ── sections   a struct inside the struct, with a Schema of its own
//          ── lists      a vector of structs, with a Schema of its own
//          ── relations  what must hold between several settings
//
// A table is constant data that the compiler makes, without libraries or allocation. declare<Member>() is
// typed; the tables erase the type, so that one reader serves all structs.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace braid::settings {

enum class Kind : std::uint8_t { kWhole, kNumber, kTruth, kWord, kText };

// The runs that use a setting.
enum class Scope : std::uint8_t { kBoth, kLive, kSimulated };

// The words of an enumeration, specialised in words.h: `static constexpr Word<E> kAll[]`. Where a value has
// several words, the first is written.
template <class E>
struct Word {
  std::string_view text;
  E value;
};
template <class E>
struct Words;

template <class E>
constexpr std::string_view word_of(E value) {
  for (const Word<E>& word : Words<E>::kAll)
    if (word.value == value) return word.text;
  return "?";
}
template <class E>
constexpr std::optional<E> value_of_word(std::string_view text) {
  for (const Word<E>& word : Words<E>::kAll)
    if (word.text == text) return word.value;
  return std::nullopt;
}

struct Setting {
  std::string_view name;
  std::string_view option = "";  // of the command line, "--mtu"; empty: in files only
  std::string_view unit = "";    // "ms"; empty: a count, or stated in `help`
  std::string_view help;
  std::string_view reason = "";  // the reason for the default

  // Bounds of whole numbers, both allowed. `most` 0: the largest value of the member's type.
  std::int64_t least = 0;
  std::uint64_t most = 0;
  // Bounds of other numbers, both allowed.
  double least_number = 0;
  double max_number = 0;
  // Text after the bound in the message for a value above it; begins with its own punctuation.
  std::string_view beyond = "";
  // The allowed values in words, where bounds do not state them.
  std::string_view allowed = "";
  // Is a text one of `allowed`? Control characters are refused before.
  bool (*fits)(const std::string& text) = nullptr;
  // The value that is stored for the word "auto".
  std::optional<std::uint64_t> automatic = std::nullopt;
  // The same for a number: below its bounds.
  std::optional<double> automatic_number = std::nullopt;
  bool may_be_auto() const { return automatic || automatic_number; }

  Scope scope = Scope::kBoth;
  bool agreed = false;    // both ends of a sub-connection must have the same value: hashed into the hello
  bool required = false;  // a file must have it
  bool sourced = false;   // in files '{value: …, source: "…"}': a measurement has its source

  // Filled in by declare().
  Kind kind = Kind::kText;
  // The word number i of an enumeration; empty: i is beyond the last.
  std::string_view (*word)(std::size_t i) = nullptr;
  // get() returns the value as text; set() takes a text that was checked before (value.h).
  std::string (*get)(const void* object) = nullptr;
  void (*set)(void* object, const std::string& text) = nullptr;
};

// A relation that does not hold: its keys, the most likely cause first, and a text with the problem and the
// cure.
struct Conflict {
  std::vector<std::string> keys;
  std::string text;
};

struct Relation {
  std::string_view says;  // for the reference page
  std::optional<Conflict> (*broken)(const void* object) = nullptr;
};

struct Schema;

struct Section {
  std::string_view name;
  std::string_view title;  // above its settings in help and reference
  const Schema* schema = nullptr;
  void* (*at)(void* object) = nullptr;
  bool required = false;  // a file must have it
};

struct List {
  std::string_view name;
  std::string_view help;
  std::string_view example;  // of an entry
  Scope scope = Scope::kBoth;
  const Schema* schema = nullptr;
  std::size_t (*size)(const void* object) = nullptr;
  void* (*item)(void* object, std::size_t i) = nullptr;
  void* (*append)(void* object) = nullptr;
  void (*clear)(void* object) = nullptr;
};

// Numbers under names that the file chooses, each with its source: the cost of a unit in a program.
struct NamedNumbers {
  std::string_view name;
  std::string_view help;
  Setting value;  // get and set are not used
  void (*insert)(void* object, const std::string& key, double value) = nullptr;
};

struct Schema {
  std::span<const Setting> settings;
  std::span<const Section> sections = {};
  std::span<const List> lists = {};
  std::span<const NamedNumbers> named = {};
  std::span<const Relation> relations = {};
};

// --- declaring

template <auto Member>
struct MemberOf;
template <class C, class T, T C::*Member>
struct MemberOf<Member> {
  using Class = C;
  using Type = T;
  static T& at(void* object) { return static_cast<C*>(object)->*Member; }
  static const T& at(const void* object) { return static_cast<const C*>(object)->*Member; }
};

std::string text_of_number(double value);  // the shortest that reads back as it was
double number_of_text(const std::string& text);

// The setting whose value is `Member`: `declared`, completed by the member's type.
template <auto Member>
constexpr Setting declare(Setting declared) {
  using M = MemberOf<Member>;
  using T = typename M::Type;
  Setting s = declared;
  if constexpr (std::is_same_v<T, bool>) {
    s.kind = Kind::kTruth;
    s.get = [](const void* o) -> std::string { return M::at(o) ? "true" : "false"; };
    s.set = [](void* o, const std::string& text) { M::at(o) = text == "true"; };
  } else if constexpr (std::is_integral_v<T>) {
    s.kind = Kind::kWhole;
    if (s.most == 0) s.most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    s.get = [](const void* o) { return std::to_string(M::at(o)); };
    s.set = [](void* o, const std::string& text) {
      std::from_chars(text.data(), text.data() + text.size(), M::at(o));
    };
  } else if constexpr (std::is_floating_point_v<T>) {
    s.kind = Kind::kNumber;
    s.get = [](const void* o) { return text_of_number(M::at(o)); };
    s.set = [](void* o, const std::string& text) { M::at(o) = number_of_text(text); };
  } else if constexpr (std::is_enum_v<T>) {
    s.kind = Kind::kWord;
    s.word = [](std::size_t i) -> std::string_view {
      return i < std::size(Words<T>::kAll) ? Words<T>::kAll[i].text : std::string_view();
    };
    s.get = [](const void* o) { return std::string(word_of(M::at(o))); };
    s.set = [](void* o, const std::string& text) { M::at(o) = *value_of_word<T>(text); };
  } else {
    static_assert(std::is_same_v<T, std::string>);
    s.kind = Kind::kText;
    s.get = [](const void* o) { return M::at(o); };
    s.set = [](void* o, const std::string& text) { M::at(o) = text; };
  }
  return s;
}

template <auto Member>
constexpr Section section(std::string_view name, std::string_view title, const Schema& schema) {
  return {name, title, &schema, [](void* o) -> void* { return &MemberOf<Member>::at(o); }};
}

template <auto Member>
constexpr List list(std::string_view name, std::string_view help, std::string_view example,
                    const Schema& schema, Scope scope = Scope::kBoth) {
  using M = MemberOf<Member>;
  return {.name = name,
          .help = help,
          .example = example,
          .scope = scope,
          .schema = &schema,
          .size = [](const void* o) { return M::at(o).size(); },
          .item = [](void* o, std::size_t i) -> void* { return &M::at(o)[i]; },
          .append = [](void* o) -> void* { return &M::at(o).emplace_back(); },
          .clear = [](void* o) { M::at(o).clear(); }};
}

// `Broken` takes a const T&.
template <class T, auto Broken>
constexpr Relation relation(std::string_view says) {
  return {says, [](const void* o) { return Broken(*static_cast<const T*>(o)); }};
}

}  // namespace braid::settings
