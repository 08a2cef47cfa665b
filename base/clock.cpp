#include "base/clock.h"

#include <ctime>

namespace braid {

Instant monotonic_now() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant::from_ns(t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec);
}

}  // namespace braid
