// Sleeping and yielding. Programs that wait for a plain variable in a loop that sleeps work on one machine, though C calls it a race. Here the
// writer's page would leave its cluster only with a token that somebody asks for. So a thread that sleeps asks, shortly before it
// wakes, that each cluster releases what its threads have written, and then acquires it (docs/decisions/0047).
//
//   nanosleep()   release        ask       acquire
//   ───────────────┴──── sleeps ───┴─ sleeps ──┴──────▶
//                                  │
//   other clusters                 └ release
//
// In simulation, where time is virtual, nobody is there who could be asked: a thread finds what others have released, as by sleeping.
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/timespec.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/clocks.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

constexpr Duration kLongestLead =
    20_ms;  // between the question and waking: threads of the system wake up in it, also on a busy machine
constexpr Duration kLong = 100_ms;    // a sleep that asks in any case; shorter ones share a question
constexpr Duration kAskAgain = 1_ms;  // for each cluster of the run, so that one is asked no more often
constexpr unsigned kYieldsToLook = 16;

// The calling thread is a compute node, and others may be in other clusters.
bool may_look() {
  if (!several_clusters() || is_forked_child()) return false;
  const Host* const host = current_host();
  return host != nullptr && host->current_node() >= 0;
}

void look() {
  on_private([] {
    if (may_look()) release_and_acquire();
  });
}

void ask(bool in_any_case) {
  static constinit std::atomic<std::int64_t> last_ns{0};
  on_private([=] {
    if (!may_look() || !thread_host::starts_threads()) return;
    const unsigned clusters = joined_host("nanosleep()").shape().clusters;
    const std::int64_t now = thread_host::monotonic().ns();
    if (!in_any_case && now - last_ns.load(std::memory_order_relaxed) < kAskAgain.ns() * clusters) return;
    last_ns.store(now, std::memory_order_relaxed);
    ask_for_releases();
  });
}

// How long the second part of a sleep is, behind the question.
Duration lead(Duration sleep) {
  return std::min(sleep / 4, kLongestLead);
}

// As nanosleep().
int sleep_live(Duration time, Duration* rest) {
  const auto sleep_part = [rest](Duration part, Duration later) {
    const timespec length = to_timespec(part);
    timespec left{};
    if (::nanosleep(&length, &left) == 0) return true;
    *rest = to_duration(left) + later;
    return false;
  };
  look();
  if (!sleep_part(time - lead(time), lead(time))) return -1;
  ask(time >= kLong);
  if (!sleep_part(lead(time), {})) return -1;
  look();
  return 0;
}

// As clock_nanosleep().
int sleep_until(clockid_t clock, const timespec& deadline) {
  const Duration time = std::max(to_duration(deadline) - now(clock), Duration());
  const timespec first = to_timespec(to_duration(deadline) - lead(time));
  look();
  if (const int error_number = ::clock_nanosleep(clock, TIMER_ABSTIME, &first, nullptr); error_number != 0)
    return error_number;
  ask(time >= kLong);
  if (const int error_number = ::clock_nanosleep(clock, TIMER_ABSTIME, &deadline, nullptr); error_number != 0)
    return error_number;
  look();
  return 0;
}

// Who could be cancelled meanwhile looks again and again.
void sleep_virtual(Duration time) {
  constexpr Duration kLook = 1_ms;
  if (!can_be_cancelled()) return on_private([=] { thread_host::sleep(time); });
  const Duration end = now(CLOCK_MONOTONIC) + time;
  for (Duration left = time; left > Duration(); left = end - now(CLOCK_MONOTONIC)) {
    on_private([=] { thread_host::sleep(std::min(left, kLook)); });
    test_cancellation();
  }
}

void sleep_simulated(Duration time) {
  look();
  if (time > Duration()) sleep_virtual(time);
  look();
}

// 0, or -1 with errno, and what is left.
int sleep_for(Duration time, Duration* rest) {
  return at_point([=] {
    if (thread_host::starts_threads()) return sleep_live(time, rest);
    sleep_simulated(time);
    return 0;
  });
}

bool is_time_of_day(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME || clock == CLOCK_TAI;
}

// As long as a system call, in simulation: who polls so lets others go on.
void yield() {
  static constinit thread_local unsigned yields __attribute__((tls_model("initial-exec"))) = 0;
  const bool looks = ++yields % kYieldsToLook == 0;
  if (looks) ask(false);
  if (thread_host::starts_threads())
    (void)::sched_yield();
  else
    on_private([] { thread_host::sleep(1_us); });
  if (looks) look();
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT
using braid::Duration;

extern "C" {

int WRAPPED(nanosleep)(const timespec* time, timespec* rest) {
  if (!braid::is_valid(*time)) return errno = EINVAL, -1;
  Duration left;
  const int result = sleep_for(braid::to_duration(*time), &left);
  if (rest != nullptr) *rest = braid::to_timespec(left);
  return result;
}
int WRAPPED(clock_nanosleep)(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (!braid::is_valid(*time)) return EINVAL;
  const bool is_absolute = (flags & TIMER_ABSTIME) != 0;
  if (!braid::dsm::thread_host::starts_threads()) {
    if (clock == CLOCK_THREAD_CPUTIME_ID || ::clock_getres(clock, nullptr) != 0) return EINVAL;
    return at_point([=] {
      sleep_simulated(braid::to_duration(*time) - (is_absolute ? now(clock) : Duration()));
      return 0;
    });
  }
  const int before = errno;
  const int result = at_point([=] {
    if (is_time_of_day(clock) && !is_absolute) return WRAPPED(nanosleep)(time, rest);
    const int error_number =
        is_time_of_day(clock) ? sleep_until(clock, *time) : ::clock_nanosleep(clock, flags, time, rest);
    return error_number == 0 ? 0 : (errno = error_number, -1);
  });
  const int error_number = result == 0 ? 0 : errno;
  errno = before;
  return error_number;
}
int WRAPPED(usleep)(useconds_t us) {
  Duration left;
  return sleep_for(Duration::us(us), &left);
}
unsigned WRAPPED(sleep)(unsigned seconds) {
  Duration left;
  (void)sleep_for(Duration::s(seconds), &left);
  return static_cast<unsigned>(braid::to_timespec(left).tv_sec);
}
int WRAPPED(thrd_sleep)(const timespec* time, timespec* rest) {
  if (!braid::is_valid(*time)) return -2;
  return WRAPPED(nanosleep)(time, rest);
}

int WRAPPED(sched_yield)() {
  yield();
  return 0;
}
void WRAPPED(thrd_yield)() {
  yield();
}

// Of no descriptors they are sleeps.
int WRAPPED(poll)(pollfd* descriptors, nfds_t count, int timeout_ms) {
  if (count > 0 || timeout_ms <= 0) return at_point([&] { return ::poll(descriptors, count, timeout_ms); });
  Duration left;
  return sleep_for(Duration::ms(timeout_ms), &left);
}
int WRAPPED(select)(int count, fd_set* reads, fd_set* writes, fd_set* exceptions, timeval* timeout) {
  if (count > 0 || timeout == nullptr || timeout->tv_sec < 0 || timeout->tv_usec < 0)
    return at_point([&] { return ::select(count, reads, writes, exceptions, timeout); });
  Duration left;
  const int result = sleep_for(Duration::s(timeout->tv_sec) + Duration::us(timeout->tv_usec), &left);
  const timespec rest = braid::to_timespec(left);
  *timeout = {rest.tv_sec, rest.tv_nsec / 1000};
  return result;
}

}  // extern "C"
