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

// `braid sim` finds it in the program's file: each thread has thread-local variables of its own.
extern const char braid_threads_have_variables;
const char braid_threads_have_variables = 1;

int WRAPPED(clock_gettime)(clockid_t clock, timespec* time) {
  if (::clock_getres(clock, nullptr) != 0) return -1;  // it is none
  *time = braid::to_timespec(now(clock));
  return 0;
}
int WRAPPED(gettimeofday)(timeval* time, void*) {
  const timespec now_time = braid::to_timespec(now(CLOCK_REALTIME));
  *time = {now_time.tv_sec, now_time.tv_nsec / 1000};
  return 0;
}
time_t WRAPPED(time)(time_t* time) {
  const time_t seconds = braid::to_timespec(now(CLOCK_REALTIME)).tv_sec;
  if (time != nullptr) *time = seconds;
  return seconds;
}
int WRAPPED(timespec_get)(timespec* time, int base) {
  if (base != TIME_UTC) return 0;
  *time = braid::to_timespec(now(CLOCK_REALTIME));
  return base;
}
clock_t WRAPPED(clock)() {
  return now(CLOCK_PROCESS_CPUTIME_ID).ns() / (braid::Duration::s(1).ns() / CLOCKS_PER_SEC);
}

// The host's clocks are not those of the program.
int WRAPPED(clock_settime)(clockid_t, const timespec*) {
  return errno = EPERM, -1;
}
int WRAPPED(settimeofday)(const timeval*, const struct timezone*) {
  return errno = EPERM, -1;
}

std::int64_t WRAPPED(_ZNSt6chrono3_V212steady_clock3nowEv)() {
  return now(CLOCK_MONOTONIC).ns();
}
std::int64_t WRAPPED(_ZNSt6chrono3_V212system_clock3nowEv)() {
  return now(CLOCK_REALTIME).ns();
}

}  // extern "C"
