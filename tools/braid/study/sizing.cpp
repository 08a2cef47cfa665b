#include "tools/braid/study/sizing.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "settings/run_words.h"
#include "settings/words.h"

namespace braid::cli {

using convergence::Dispatch;

std::string Sizing::text() const {
  return fmt::format("{} {}, {} {}, {}", proxies, proxies == 1 ? "proxy" : "proxies", nis,
                     nis == 1 ? "NI" : "NIs", settings::word_of(dispatch));
}

std::vector<Sizing> SizingSearch::neighbours() const {
  std::vector<Sizing> all;
  const auto add = [&](unsigned proxies, unsigned nis, Dispatch dispatch) {
    // A proxy has one NI, so more NIs than proxies would be idle.
    if (proxies >= 1 && proxies <= max_proxies_ && nis >= 1 && nis <= std::min(max_nis_, proxies))
      all.push_back({proxies, nis, dispatch});
  };
  const Sizing& c = choice_;
  add(c.proxies - 1, std::min(c.nis, c.proxies - 1), c.dispatch);
  add(c.proxies + 1, c.nis, c.dispatch);
  add(c.proxies, c.nis - 1, c.dispatch);
  add(c.proxies, c.nis + 1, c.dispatch);
  // With one proxy there is nothing to choose.
  for (const Dispatch other : {Dispatch::kFixed, Dispatch::kRoundRobin, Dispatch::kLeastLoaded})
    if (other != c.dispatch && c.proxies > 1) add(c.proxies, c.nis, other);
  return all;
}

std::vector<Sizing> SizingSearch::candidates() const {
  std::vector<Sizing> all = neighbours();
  // Twice one is one more.
  if (choice_.proxies > 1 && 2 * choice_.proxies <= max_proxies_)
    all.push_back({2 * choice_.proxies, choice_.nis, choice_.dispatch});
  return all;
}

std::vector<Sizing> SizingSearch::next() const {
  std::vector<Sizing> missing;
  if (!known_.contains(choice_)) return {choice_};
  for (const Sizing& sizing : candidates())
    if (!known_.contains(sizing)) missing.push_back(sizing);
  return missing;
}

void SizingSearch::look_at(const Sizing& sizing, std::vector<double> times) {
  CHECK(!times.empty());
  known_[sizing] = std::move(times);
}

Spread SizingSearch::change_of(const Sizing& sizing) const {
  const std::vector<double>& own = times_of(choice_);
  const std::vector<double>& other = times_of(sizing);
  CHECK_EQ(own.size(), other.size());
  std::vector<double> changes;
  for (std::size_t i = 0; i < own.size(); ++i) changes.push_back(other[i] / own[i] - 1);
  return spread_of(std::move(changes));
}

bool SizingSearch::is_better(const Sizing& sizing) const {
  if (left_.contains(sizing)) return false;
  const Spread change = change_of(sizing);
  const unsigned parts = sizing.proxies + sizing.nis, own_parts = choice_.proxies + choice_.nis;
  if (parts < own_parts) return change.median < worth_;
  // Each further part must be worth it, and with every likely median there is a gain.
  const double wanted = worth_ * std::max(1u, parts - own_parts);
  return change.median <= -wanted && change.high < 0;
}

bool SizingSearch::step() {
  const Sizing* best = nullptr;
  const std::vector<Sizing> all = candidates();
  for (const Sizing& sizing : all)
    if (is_better(sizing) && (best == nullptr || change_of(sizing).median < change_of(*best).median))
      best = &sizing;
  if (best == nullptr) return false;
  left_.insert(choice_);
  choice_ = *best;
  return true;
}

}  // namespace braid::cli
