// Time as programs for simulation see it: virtual. CLOCK_REALTIME begins at a fixed date, so that a run can be repeated. The clocks
// of processor time show the time of the run, too.
#include <errno.h>
#include <sched.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

#include "dsm/program/thread_host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

bool is_date(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

std::int64_t now_ns(clockid_t clock) {
  return on_private(
      [=] { return is_date(clock) ? thread_host::unix_time().ns() : thread_host::monotonic().ns(); });
}

timespec to_timespec(std::int64_t ns) {
  return {ns / kSecond, ns % kSecond};
}
std::int64_t to_ns(const timespec& t) {
  return t.tv_sec * kSecond + t.tv_nsec;
}
bool is_valid(const timespec& t) {
  return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < kSecond;
}

void sleep_ns(std::int64_t ns) {
  if (ns > 0) on_private([=] { thread_host::sleep(Duration::ns(ns)); });
}

}  // namespace

}  // namespace braid::dsm::pthreads

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
  const time_t seconds = now_ns(CLOCK_REALTIME) / kSecond;
  if (time != nullptr) *time = seconds;
  return seconds;
}
int WRAPPED(timespec_get)(timespec* time, int base) {
  if (base != TIME_UTC) return 0;
  *time = to_timespec(now_ns(CLOCK_REALTIME));
  return base;
}
clock_t WRAPPED(clock)() {
  return now_ns(CLOCK_PROCESS_CPUTIME_ID) * CLOCKS_PER_SEC / kSecond;
}

int WRAPPED(nanosleep)(const timespec* time, timespec* rest) {
  if (!is_valid(*time)) return errno = EINVAL, -1;
  sleep_ns(to_ns(*time));
  if (rest != nullptr) *rest = {};
  return 0;
}
int WRAPPED(clock_nanosleep)(clockid_t clock, int flags, const timespec* time, timespec*) {
  if (!is_valid(*time)) return EINVAL;
  sleep_ns(to_ns(*time) - ((flags & TIMER_ABSTIME) != 0 ? now_ns(clock) : 0));
  return 0;
}
int WRAPPED(usleep)(useconds_t us) {
  sleep_ns(std::int64_t{us} * 1000);
  return 0;
}
int WRAPPED(thrd_sleep)(const timespec* time, timespec* rest) {
  if (!is_valid(*time)) return -2;
  return WRAPPED(nanosleep)(time, rest);
}
unsigned WRAPPED(sleep)(unsigned seconds) {
  sleep_ns(seconds * kSecond);
  return 0;
}
// As long as a system call: who polls so lets others go on.
int WRAPPED(sched_yield)() {
  sleep_ns(1000);
  return 0;
}
void WRAPPED(thrd_yield)() {
  (void)WRAPPED(sched_yield)();
}

std::int64_t WRAPPED(_ZNSt6chrono3_V212steady_clock3nowEv)() {
  return now_ns(CLOCK_MONOTONIC);
}
std::int64_t WRAPPED(_ZNSt6chrono3_V212system_clock3nowEv)() {
  return now_ns(CLOCK_REALTIME);
}

}  // extern "C"
