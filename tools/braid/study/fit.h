// `braid fit`: finds at most three numbers of a cost model, so that figures of some simulations meet targets, and then
// simulates others with that model. A targets file:
//
//   model: alewife-1997            # where the other costs are from
//   name: mine                     # of the model that is made
//   study: one-node-clusters.yaml  # simulations of cluster size 1; beside this file
//   predict: all-clusters.yaml     # simulations that the fit does not look at
//   fit:
//     - {number: stages, target: idle_cycles, value: 5970, least: 0.1, most: 10, source: "…"}
//     - {number: unit, target: utilisation, value: 0.352, least: 1, most: 50, source: "…"}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "settings/cost_model.h"
#include "settings/setting.h"

namespace braid::cli {

// A number that is fitted, and the figure that tells it.
struct FitNumber {
  std::string number;  // "stages": a factor of all costs of a proxy; otherwise a cost, in cycles
  std::string target;
  double value = 0;  // of the target
  double least = 0;
  double most = 0;
  double start = 0;  // 0: the model's own
  std::string source;
};

struct FitConfig {
  static constexpr std::size_t kMostNumbers = 3;

  std::string model;
  std::string name;
  std::string study;
  std::string predict;  // empty: nothing is predicted
  double tolerance = 0.01;
  std::uint32_t rounds = 12;
  std::vector<FitNumber> fit;
};
extern const settings::Schema kFitSchema;
inline const settings::Schema& schema_of(const FitConfig*) {
  return kFitSchema;
}
Result<FitConfig> load_fit(const std::string& path);

// --- The search. Pure.

// Each number follows its own target, by the secant through the last two rounds in logarithms (the first round doubles or
// halves nothing: it moves by the ratio of figure and target). Numbers stay within their bounds.
class FitSearch {
 public:
  // `start`: the numbers of the first round.
  FitSearch(const FitConfig& config, std::vector<double> start);

  struct Round {
    std::vector<double> numbers;
    std::vector<double> figures;
  };

  // The numbers to look at next; those of the best round, once is_over().
  const std::vector<double>& numbers() const { return numbers_; }
  // What they gave.
  void look_at(std::vector<double> figures);
  bool is_over() const { return is_over_; }
  // All figures of the best round are within the tolerance.
  bool has_met() const { return error_of(rounds_[best_]) <= config_.tolerance; }
  const std::vector<Round>& rounds() const { return rounds_; }
  std::size_t best() const { return best_; }

 private:
  double error_of(const Round& round) const;  // the largest |figure / target - 1|
  double next(std::size_t i) const;

  const FitConfig& config_;
  std::vector<double> numbers_;
  std::vector<Round> rounds_;
  std::size_t best_ = 0;
  bool is_over_ = false;
};

// --- The model

// The costs that `number` stands for.
std::vector<std::string> costs_of(const std::string& number);
// The cost `name` of a model with these numbers.
double cost_with(const FitConfig& config, const std::vector<double>& numbers, const std::string& name,
                 const settings::CostModel& model);
// The text of the model's file with the fitted costs, these settings of its transport by their names, the new name, and `head`
// as comments above it.
Result<std::string> frozen_model(const FitConfig& config, const std::vector<double>& numbers,
                                 const std::map<std::string, std::string>& transport, const std::string& text,
                                 const settings::CostModel& model, const std::string& head);

}  // namespace braid::cli
