#include "base/clock.h"

#include <ctime>

#include "base/thread_clock.h"
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

Duration cpu_time_of_thread(pid_t thread) {
  // The kernel's number of that clock, as of pthread_getcpuclockid(), which would need a thread that lives.
  const auto clock = static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | 6u);
  timespec time{};
  return ::clock_gettime(clock, &time) == 0 ? to_duration(time) : Duration();
}

Duration unix_time_of_monotonic_zero() {
  return time_of(CLOCK_REALTIME) - (monotonic_now() - Instant());
}

}  // namespace braid
