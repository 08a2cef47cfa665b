// Which proxies, NIs and dispatch a machine should have for a program: a search in steps of one, for `braid plan`. Pure: it
// says what to simulate next, and is told what that took.
//
// Runs with equal seeds are compared with each other, so what a seed does to both is no difference.
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "convergence/dispatch.h"
#include "tools/braid/study/figures.h"

namespace braid::cli {

// Of each cluster.
struct Sizing {
  unsigned proxies = 1;
  unsigned nis = 1;
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;

  auto operator<=>(const Sizing&) const = default;
  // "2 proxies, 1 NI, rr"
  std::string text() const;
};

class SizingSearch {
 public:
  // `worth`: the least gain for which there is one proxy or NI more, or another dispatch; 0.03 is 3 %. Above 0.
  SizingSearch(unsigned max_proxies, unsigned max_nis, double worth)
      : max_proxies_(max_proxies), max_nis_(max_nis), worth_(worth) {}

  // What must be simulated before step(); empty: nothing.
  std::vector<Sizing> next() const;
  // The times of its runs, by seed: of each sizing the same number, in the same order, at least one.
  void look_at(const Sizing& sizing, std::vector<double> times);
  // Once what next() asked for is known: goes to a better neighbour. False: there is none, and choice() is the recommendation.
  [[nodiscard]] bool step();

  const Sizing& choice() const { return choice_; }
  // Of the choice: one proxy or NI more or less, or another dispatch.
  std::vector<Sizing> neighbours() const;
  const std::vector<double>& times_of(const Sizing& sizing) const { return known_.at(sizing); }
  // By how much of the choice's time a sizing takes longer, over the seeds.
  Spread change_of(const Sizing& sizing) const;

 private:
  // More proxies than these, too: one more can be of no use where two more are.
  std::vector<Sizing> candidates() const;
  bool is_better(const Sizing& sizing) const;

  const unsigned max_proxies_, max_nis_;
  const double worth_;
  Sizing choice_;
  std::map<Sizing, std::vector<double>> known_;
  std::set<Sizing> left_;  // choices that the search has left: it does not come back
};

}  // namespace braid::cli
