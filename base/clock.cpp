#include "base/clock.h"

#include <ctime>

#include "base/timespec.h"

namespace braid {

namespace {

Duration time_of(clockid_t clock) {
  timespec time;
  ::clock_gettime(clock, &time);
  return to_duration(time);
}

}  // namespace

Instant monotonic_now() {
  return Instant::from_ns(time_of(CLOCK_MONOTONIC).ns());
}

Duration thread_cpu_time() {
  return time_of(CLOCK_THREAD_CPUTIME_ID);
}

Duration unix_time_of_monotonic_zero() {
  return time_of(CLOCK_REALTIME) - (monotonic_now() - Instant());
}

}  // namespace braid
