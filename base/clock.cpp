#include "base/clock.h"

#include <ctime>

namespace braid {

Instant monotonic_now() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant::from_ns(t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec);
}

Duration thread_cpu_time() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return Duration::s(t.tv_sec) + Duration::ns(t.tv_nsec);
}

Duration unix_time_of_monotonic_zero() {
  timespec t;
  ::clock_gettime(CLOCK_REALTIME, &t);
  return Instant::from_ns(t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec) - monotonic_now();
}

}  // namespace braid
