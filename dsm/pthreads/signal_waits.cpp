// Waiting for signals. In simulation all compute nodes of a cluster share a thread of the system there, which must not wait while
// others could go on. So a thread looks again and again, in virtual time. A signal that another thread sends is there as soon as that
// one's kill() has returned, so runs stay exact.
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/time.h"
#include "dsm/program/program_signals.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/clocks.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

bool waits_in_system() {
  return !started() || thread_host::starts_threads();
}

constexpr Duration kFirstPause = 10_us;
constexpr Duration kLongestPause = 1_ms;  // how late a signal is seen at most

// Sleeps until is_over(), or until handlers have run (EINTR) or the time is over (EAGAIN): then false.
template <class IsOver>
bool wait_until(IsOver is_over, std::optional<Duration> limit = {}) {
  const unsigned before = signals_delivered;
  const Duration begin = now(CLOCK_MONOTONIC);
  for (Duration pause = kFirstPause; !is_over(); pause = std::min(pause * 2, kLongestPause)) {
    if (signals_delivered != before) return errno = EINTR, false;
    const Duration waited = now(CLOCK_MONOTONIC) - begin;
    if (limit && waited >= *limit) return errno = EAGAIN, false;
    const Duration part = limit ? std::min(pause, *limit - waited) : pause;
    on_private([=] { thread_host::sleep(part); });
    test_cancellation();
  }
  return true;
}

bool is_ignored(int number) {
  struct sigaction action = {};
  ::sigaction(number, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return action.sa_handler == SIG_IGN;
  return number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;
}

// What pthread_kill() has sent to the calling thread: takes one that `is_wanted`; 0: there is none.
template <class IsWanted>
int take_sent(IsWanted is_wanted) {
  return on_private([=] {
    Thread& thread = *current_thread();
    const Guard guard(kThreadsLock);
    for (int number = 1; number < NSIG; ++number)
      if (::sigismember(&thread.sent, number) == 1 && is_wanted(number)) {
        ::sigdelset(&thread.sent, number);
        return number;
      }
    return 0;
  });
}

// Whether one is pending that would come with this mask.
bool one_would_come(const sigset_t& mask) {
  const int sent = take_sent([mask](int number) { return ::sigismember(&mask, number) == 0; });
  if (sent != 0) ::raise(sent);
  sigset_t pending;
  ::sigpending(&pending);
  for (int number = 1; number < NSIG; ++number)
    if (::sigismember(&pending, number) == 1 && ::sigismember(&mask, number) == 0 && !is_ignored(number))
      return true;
  return false;
}

siginfo_t sent_by_this_program(int number) {
  siginfo_t info{};
  info.si_signo = number;
  info.si_code = SI_TKILL;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  return info;
}

// As sigtimedwait().
int take(const sigset_t* signals, siginfo_t* info, std::optional<Duration> limit) {
  int number = -1;
  const auto is_taken = [&] {
    const timespec at_once{};
    number = take_sent([set = *signals](int n) { return ::sigismember(&set, n) == 1; });
    if (number != 0) {
      if (info != nullptr) *info = sent_by_this_program(number);
      return true;
    }
    number = ::sigtimedwait(signals, info, &at_once);
    return number >= 0 || errno != EAGAIN;
  };
  return wait_until(is_taken, limit) ? number : -1;
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(sigtimedwait)(const sigset_t* signals, siginfo_t* info, const timespec* timeout) {
  if (waits_in_system()) return at_point([&] { return ::sigtimedwait(signals, info, timeout); });
  test_cancellation();
  if (timeout == nullptr) return take(signals, info, {});
  if (timeout->tv_nsec < 0 || timeout->tv_nsec >= braid::Duration::s(1).ns()) return errno = EINVAL, -1;
  return take(signals, info, braid::to_duration(*timeout));
}
int WRAPPED(sigwaitinfo)(const sigset_t* signals, siginfo_t* info) {
  return WRAPPED(sigtimedwait)(signals, info, nullptr);
}
int WRAPPED(sigwait)(const sigset_t* signals, int* number) {
  return braid::dsm::wait_for_signal([signals] { return WRAPPED(sigtimedwait)(signals, nullptr, nullptr); },
                                     number);
}

int WRAPPED(sigsuspend)(const sigset_t* mask) {
  if (waits_in_system()) return at_point([&] { return ::sigsuspend(mask); });
  test_cancellation();
  const sigset_t given = braid::dsm::without_fault_signals(*mask);
  return wait_until([&] { return one_would_come(given); }) ? ::sigsuspend(&given) : -1;
}
// sigpause() of System V and POSIX: with the thread's mask but for the signal.
int WRAPPED(__xpg_sigpause)(int signal) {
  sigset_t mask;
  (void)::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  if (::sigdelset(&mask, signal) != 0) return -1;
  return WRAPPED(sigsuspend)(&mask);
}
int WRAPPED(pause)() {
  if (waits_in_system()) return at_point([] { return ::pause(); });
  test_cancellation();
  wait_until([] { return false; });
  return -1;
}

}  // extern "C"
