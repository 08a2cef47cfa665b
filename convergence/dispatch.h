// Which proxy takes the next message (paper, section 3.6).
#pragma once

#include <cstdint>

#include "base/check.h"

namespace braid::convergence {

enum class Dispatch : std::uint8_t {
  kFixed,       // a compute node always uses the same proxy
  kRoundRobin,  // one proxy after the other
};

// One per connection end. Owned by the sending thread.
class Dispatcher {
 public:
  Dispatcher(Dispatch policy, unsigned proxies, unsigned first = 0)
      : policy_(policy), proxies_(proxies), next_(0) {
    CHECK_GT(proxies, 0u);
    next_ = first % proxies;
  }

  // `lane` is the compute node that sends (CV-1).
  unsigned pick(unsigned lane) {
    if (proxies_ == 1) return 0;
    if (policy_ == Dispatch::kFixed) return lane % proxies_;
    const unsigned picked = next_;
    next_ = next_ + 1 == proxies_ ? 0 : next_ + 1;
    return picked;
  }

 private:
  Dispatch policy_;
  unsigned proxies_;
  unsigned next_;
};

}  // namespace braid::convergence
