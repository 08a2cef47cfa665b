#include "tools/braid/study/condition.h"

#include <fmt/core.h>
#include <algorithm>
#include <optional>

#include "settings/run.h"
#include "settings/text.h"
#include "settings/value.h"
#include "settings/views/json.h"
#include "tools/braid/number_in.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

std::vector<std::string> words_of(const std::string& text) {
  const std::string signs = "=!<>*";
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    const bool is_sign = signs.find(text[at]) != std::string::npos;
    std::size_t end = at;
    while (end < text.size() && text[end] != ' ' && (signs.find(text[end]) != std::string::npos) == is_sign)
      ++end;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace

class Condition::Parser {
 public:
  Parser(const std::string& text, const std::vector<std::string>& others)
      : words_(words_of(text)), others_(others) {}

  Result<Condition> parse() {
    Condition condition;
    do {
      std::vector<Comparison> all;
      do {
        Result<Comparison> comparison = parse_comparison();
        if (!comparison) return comparison.error();
        all.push_back(std::move(*comparison));
      } while (take("and"));
      condition.any_of_all_.push_back(std::move(all));
    } while (take("or"));
    if (at_ < words_.size())
      return error("'{}' is not understood here; 'and', 'or' or the end is expected",
                   settings::shown(words_[at_]));
    return condition;
  }

 private:
  bool take(const char* word) {
    if (at_ == words_.size() || words_[at_] != word) return false;
    ++at_;
    return true;
  }

  bool is_name(const std::string& word) const {
    return settings::find_setting(settings::kRunSchema, word) != nullptr ||
           std::find(others_.begin(), others_.end(), word) != others_.end();
  }

  Result<Comparison> parse_comparison() {
    Comparison c;
    Result<Term> left = parse_term();
    if (!left) return left.error();
    static const std::pair<const char*, Relation> kRelations[] = {
        {"==", Relation::kEqual},  {"!=", Relation::kUnequal}, {"<", Relation::kLess},
        {"<=", Relation::kAtMost}, {">", Relation::kMore},     {">=", Relation::kAtLeast}};
    const auto* const found = std::find_if(std::begin(kRelations), std::end(kRelations),
                                           [&](const auto& relation) { return take(relation.first); });
    if (found == std::end(kRelations))
      return error("{} where a comparison is expected: ==, !=, <, <=, > or >=", here());
    c.relation = found->second;
    Result<Term> right = parse_term();
    if (!right) return right.error();
    c.left = std::move(*left);
    c.right = std::move(*right);
    if (const Result<void> checked = check(c); !checked) return checked.error();
    return c;
  }

  Result<Term> parse_term() {
    Term term;
    do {
      if (at_ == words_.size() || std::string("=!<>*").find(words_[at_][0]) != std::string::npos)
        return error("{} where a setting or a value is expected", here());
      const std::string word = words_[at_++];
      const std::optional<double> number = number_in<double>(word);
      if (is_name(word))
        term.push_back({word, {}});
      else
        term.push_back({"", number ? Json(*number) : Json(word)});
    } while (take("*"));
    if (term.size() > 1) {
      for (const Factor& factor : term) {
        if (factor.value.is_string()) return not_a_setting(factor.value.get<std::string>());
      }
    }
    return term;
  }

  // A word that the setting cannot have would silently make the comparison the same for all points.
  Result<void> check(Comparison& c) const {
    const auto is_word = [](const Term& term) { return term.size() == 1 && term[0].value.is_string(); };
    const auto has_name = [](const Term& term) {
      return std::any_of(term.begin(), term.end(), [](const Factor& f) { return !f.key.empty(); });
    };
    for (auto [word, other] : {std::pair{&c.left, &c.right}, std::pair{&c.right, &c.left}}) {
      if (!is_word(*word)) continue;
      const std::string text = word->front().value.get<std::string>();
      if (other->size() != 1 || other->front().key.empty()) return not_a_setting(text);
      settings::RunConfig scratch;
      const std::string& key = other->front().key;
      const settings::Found found = settings::find_setting(settings::kRunSchema, &scratch, key);
      if (found.setting == nullptr) continue;
      const bool takes_words = found.setting->kind != settings::Kind::kNumber &&
                               (found.setting->kind != settings::Kind::kWhole || found.setting->automatic);
      if (!takes_words) return not_a_setting(text);
      if (const std::string problem = settings::assign(*found.setting, found.object, text); !problem.empty())
        return error("'{}': {}", key, problem);
      // The one of several words for a value that is compared.
      word->front().value = settings::to_json(*found.setting, found.object);
    }
    if (!has_name(c.left) && !has_name(c.right))
      return error("it names no setting, so it is the same for all points");
    return {};
  }

  Error not_a_setting(const std::string& word) const {
    std::vector<std::string> known = others_;
    for (const settings::Listed& listed : settings::all_settings(settings::kRunSchema))
      known.push_back(listed.key);
    return error("'{}' {}", settings::shown(word), settings::not_known(word, known));
  }

  std::string here() const {
    return at_ == words_.size() ? "it ends" : fmt::format("'{}' stands", settings::shown(words_[at_]));
  }

  const std::vector<std::string> words_;
  const std::vector<std::string>& others_;
  std::size_t at_ = 0;
};

Result<Condition> Condition::parse(const std::string& text, const std::vector<std::string>& others) {
  return Parser(text, others).parse();
}

Json Condition::value(const Term& term, const Lookup& value_of) {
  const auto of = [&](const Factor& f) { return f.key.empty() ? f.value : value_of(f.key); };
  if (term.size() == 1) return of(term.front());
  double product = 1;
  for (const Factor& factor : term) {
    const Json value = of(factor);
    if (!value.is_number()) return nullptr;  // "auto" times two
    product *= value.get<double>();
  }
  return product;
}

bool Condition::holds(const Comparison& c, const Lookup& value_of) {
  const Json left = value(c.left, value_of), right = value(c.right, value_of);
  if (c.relation == Relation::kEqual) return left == right;
  if (c.relation == Relation::kUnequal) return left != right;
  if (!left.is_number() || !right.is_number()) return false;
  switch (c.relation) {
    case Relation::kLess:
      return left < right;
    case Relation::kAtMost:
      return left <= right;
    case Relation::kMore:
      return left > right;
    case Relation::kAtLeast:
    case Relation::kEqual:
    case Relation::kUnequal:
      break;
  }
  return left >= right;
}

bool Condition::holds(const Lookup& value_of) const {
  return std::any_of(any_of_all_.begin(), any_of_all_.end(), [&](const std::vector<Comparison>& all) {
    return std::all_of(all.begin(), all.end(), [&](const Comparison& c) { return holds(c, value_of); });
  });
}

}  // namespace braid::cli
