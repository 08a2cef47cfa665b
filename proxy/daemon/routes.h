// Which of a proxy's sub-connections a message to a cluster goes over: the sending proxy picks the destination
// proxy (paper, section 3.5), one of those that it has a sub-connection with.
//
// Pure. Owned by the proxy's worker; the stack owns the sub-connections.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "convergence/peer_choice.h"
#include "stack/stack.h"
#include "stack/sub_connection.h"

namespace braid::proxy {

// It is established and heard, and takes messages.
inline bool lives(const stack::SubConnection& sub) {
  return sub.established() && !sub.path_dead() && sub.may_take();
}

class Routes {
 public:
  Routes() { active_.fill(stack::kMaxProxiesPerCluster); }

  // The sub-connections to the cluster, of which the first `preferred` are used while one of them lives.
  void set(ClusterId cluster, std::vector<stack::SubConnection*> subs, std::uint32_t preferred) {
    Route& route = routes_[cluster.value()];
    route = Route{};
    route.subs = std::move(subs);
    route.preferred = preferred;
  }
  // FO-8: the peer's proxies from `count` on are set aside, and come last. All are active at first.
  void set_active(ClusterId cluster, unsigned count) {
    active_[cluster.value()] = static_cast<std::uint8_t>(count);
  }

  // One that lives, of several each in its turn; nullptr: none does.
  stack::SubConnection* pick(ClusterId cluster) {
    Route& route = routes_[cluster.value()];
    if (route.subs.size() == 1) return lives(*route.subs[0]) ? route.subs[0] : nullptr;
    const unsigned active = active_[cluster.value()];
    const std::optional<std::uint32_t> way = route.turns.next(
        route.preferred, static_cast<std::uint32_t>(route.subs.size()), [&](std::uint32_t i) {
          if (!lives(*route.subs[i])) return convergence::Way::kNone;
          return route.subs[i]->config().remote.proxy.value() < active ? convergence::Way::kGood
                                                                       : convergence::Way::kLastResort;
        });
    return way ? route.subs[*way] : nullptr;
  }
  // The only one there is, if it lives: pick() says the same for message after message.
  stack::SubConnection* only(ClusterId cluster) {
    return routes_[cluster.value()].subs.size() == 1 ? pick(cluster) : nullptr;
  }
  // One where a message can wait for the peer; nullptr: all are fenced or closed.
  stack::SubConnection* waiting_place(ClusterId cluster) const {
    const std::vector<stack::SubConnection*>& subs = routes_[cluster.value()].subs;
    const auto open = std::find_if(subs.begin(), subs.end(), [](const auto* sub) { return sub->may_take(); });
    return open == subs.end() ? nullptr : *open;
  }

 private:
  struct Route {
    std::vector<stack::SubConnection*> subs;
    std::uint32_t preferred = 0;
    convergence::PeerTurns turns;
  };
  std::array<Route, stack::kMaxClusters> routes_;
  std::array<std::uint8_t, stack::kMaxClusters> active_;  // proxies of the cluster
};

}  // namespace braid::proxy
