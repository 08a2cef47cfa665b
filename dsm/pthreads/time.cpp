// Time as programs for simulation see it: virtual. CLOCK_REALTIME begins at a fixed date, so that a run can be repeated. The clocks
// of processor time show the time of the run, too.
#include <errno.h>
#include <sys/time.h>
#include <time.h>

#include <chrono>

#include "dsm/pthreads/clocks.h"
#include "dsm/pthreads/wrapped.h"

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(clock_gettime)(clockid_t clock, timespec* time) {
  *time = to_timespec(now_ns(clock));
  return 0;
}
int WRAPPED(gettimeofday)(timeval* time, void*) {
  const std::int64_t us = now_ns(CLOCK_REALTIME) / 1000;
  *time = {us / 1'000'000, us % 1'000'000};
  return 0;
}
time_t WRAPPED(time)(time_t* time) {
  const time_t seconds = now_ns(CLOCK_REALTIME) / kNsPerSecond;
  if (time != nullptr) *time = seconds;
  return seconds;
}
int WRAPPED(timespec_get)(timespec* time, int base) {
  if (base != TIME_UTC) return 0;
  *time = to_timespec(now_ns(CLOCK_REALTIME));
  return base;
}
clock_t WRAPPED(clock)() {
  return now_ns(CLOCK_PROCESS_CPUTIME_ID) * CLOCKS_PER_SEC / kNsPerSecond;
}

// The host's clocks are not those of the program.
int WRAPPED(clock_settime)(clockid_t, const timespec*) {
  return errno = EPERM, -1;
}
int WRAPPED(settimeofday)(const timeval*, const struct timezone*) {
  return errno = EPERM, -1;
}

std::int64_t WRAPPED(_ZNSt6chrono3_V212steady_clock3nowEv)() {
  return now_ns(CLOCK_MONOTONIC);
}
std::int64_t WRAPPED(_ZNSt6chrono3_V212system_clock3nowEv)() {
  return now_ns(CLOCK_REALTIME);
}

}  // extern "C"
