// Which proxy takes the next message (paper, section 3.6).
#pragma once

#include <cstdint>

#include "base/check.h"

namespace braid::convergence {

enum class Dispatch : std::uint8_t {
  kFixed,        // a compute node always uses the same proxy
  kRoundRobin,   // one proxy after the other
  kLeastLoaded,  // the one with the least before it
};

// One per connection end. Owned by the sending thread.
class Dispatcher {
 public:
  Dispatcher(Dispatch policy, unsigned proxies, unsigned first = 0)
      : policy_(policy), proxies_(proxies), next_(0) {
    CHECK_GT(proxies, 0u);
    next_ = first % proxies;
  }

  // `compute_node` sends the message (CV-1). `load(proxy)` is what waits at a proxy, in any unit; asked
  // for kLeastLoaded only.
  template <class Load>
  unsigned pick(unsigned compute_node, Load&& load) {
    if (proxies_ == 1) return 0;
    if (policy_ == Dispatch::kFixed) return fixed(compute_node);
    unsigned picked = next_;
    next_ = next_ + 1 == proxies_ ? 0 : next_ + 1;
    if (policy_ == Dispatch::kRoundRobin) return picked;
    // Equal ones take turns: the search begins one further each time.
    std::uint64_t least = load(picked);
    for (unsigned i = 1, at = next_; i < proxies_; ++i, at = at + 1 == proxies_ ? 0 : at + 1) {
      const std::uint64_t here = load(at);
      if (here >= least) continue;
      least = here;
      picked = at;
    }
    return picked;
  }
  // The message may take the same proxy as the one before it, with which it is dispatched as one unit (CV-1, CV-11).
  bool may_stay(unsigned compute_node, unsigned proxy) const {
    return policy_ != Dispatch::kFixed || fixed(compute_node) == proxy;
  }
  unsigned pick(unsigned compute_node) {
    return pick(compute_node, [](unsigned) { return std::uint64_t{0}; });
  }

 private:
  unsigned fixed(unsigned compute_node) const { return compute_node % proxies_; }

  Dispatch policy_;
  unsigned proxies_;
  unsigned next_;
};

}  // namespace braid::convergence
