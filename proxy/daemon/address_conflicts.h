// Addresses that two stations claim, for the log: every proxy of a node sees the same conflict, and a conflict lasts, so
// each is told once in a minute.
//
// Pure. Owned by the node's control plane.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/take_first.h"
#include "base/time.h"
#include "stack/neighbours.h"

namespace braid::proxy {

class AddressConflicts {
 public:
  static constexpr Duration kInterval = Duration::s(60);
  // Further conflicts of the same minute are not told: somebody invents them.
  static constexpr std::size_t kMaxAtOnce = 16;

  void add(Instant now, const stack::AddressConflict& conflict) {
    std::erase_if(told_, [&](const Told& t) { return now - t.at >= kInterval; });
    for (const Told& t : told_)
      if (t.conflict == conflict) return;
    if (told_.size() == kMaxAtOnce) return;
    told_.push_back({now, conflict});
    pending_.push_back(conflict);
  }
  // The next one that was not told yet.
  std::optional<stack::AddressConflict> poll() { return take_first(pending_); }

  static std::string text(const stack::AddressConflict& c) {
    if (c.ours)
      return fmt::format(
          "station {} claims the address of this node, {} (station {}): peers may lose this node; give one of "
          "them another address",
          c.claimant.to_string(), c.address.to_string(), c.holder.to_string());
    return fmt::format(
        "station {} claims the address {}, which station {} has and keeps; give one of them another address, or "
        "name the peer's station with 'mac'",
        c.claimant.to_string(), c.address.to_string(), c.holder.to_string());
  }

 private:
  struct Told {
    Instant at;
    stack::AddressConflict conflict;
  };
  std::vector<Told> told_;  // in the last interval
  std::deque<stack::AddressConflict> pending_;
};

}  // namespace braid::proxy
