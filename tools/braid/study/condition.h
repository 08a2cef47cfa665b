// Conditions of a study: which combinations of settings are points of it. For example
//   proxies <= compute
//   clusters * compute == 16 and simulation.mode != no-delay or proxies == 1
// `and` binds more strongly than `or`; there are no brackets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace braid::cli {

class Condition {
 public:
  // A setting's value; null if it was not given.
  using Lookup = std::function<nlohmann::json(const std::string& key)>;

  // The error states the problem and the cure; the caller adds the place. Words that are neither
  // settings nor `others` are values, which must be allowed for the setting beside them.
  static Result<Condition> parse(const std::string& text, const std::vector<std::string>& others);

  bool holds(const Lookup& value_of) const;

 private:
  enum class Relation : std::uint8_t { kEqual, kUnequal, kLess, kAtMost, kMore, kAtLeast };
  // A product.
  struct Factor {
    std::string key;       // empty: a value
    nlohmann::json value;  // a number or a word
  };
  using Term = std::vector<Factor>;
  struct Comparison {
    Term left;
    Relation relation = Relation::kEqual;
    Term right;
  };
  class Parser;

  static nlohmann::json value(const Term& term, const Lookup& value_of);
  static bool holds(const Comparison& comparison, const Lookup& value_of);

  std::vector<std::vector<Comparison>> any_of_all_;
};

}  // namespace braid::cli
