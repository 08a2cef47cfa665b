// At most so many in a second, and so many at once: a bound for answers to unknown hosts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace braid::stack {

class RateLimit {
 public:
  RateLimit(std::uint32_t per_second, std::uint32_t at_once)
      : every_(Duration::ns(1'000'000'000 / per_second)), at_once_(at_once) {}

  // May one more happen now? Counts it if so.
  bool allow(Instant now) {
    // full_at_: when all of them would be there again if nothing more happened.
    if (full_at_ - now > every_ * (at_once_ - 1)) return false;
    full_at_ = std::max(full_at_, now) + every_;
    return true;
  }

 private:
  Duration every_;
  int at_once_;
  Instant full_at_;
};

}  // namespace braid::stack
