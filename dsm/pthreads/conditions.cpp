// Condition variables. One is the condition of the machine at its address. Those that are not in shared memory, and all of a
// program that calls one that gives up (pthread_cond_timedwait(), pthread_cancel()), have their state in memory under a guard.
#include <errno.h>

#include "dsm/program/failure.h"
#include "dsm/program/object_ids.h"
#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/clocks.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// As the C library's static initialiser: zeros.
struct Condition {
  // Where the state is in memory: those that wait, how many of them may go, and how many were let go so far: one that came
  // after a signal does not take it.
  std::uint32_t waiting;
  std::uint32_t permits;
  std::uint64_t signals;
  clockid_t clock;
};
static_assert(sizeof(Condition) <= sizeof(pthread_cond_t));

Condition& of(pthread_cond_t* condition) {
  return *reinterpret_cast<Condition*>(condition);
}

bool is_condition(const pthread_cond_t* condition) {
  return !uses_timed_waits() && !uses_cancellation() && can_name_object(condition);
}

void wait_directly(const pthread_cond_t* condition, pthread_mutex_t* mutex) {
  constexpr auto kCall = "pthread_cond_wait()";
  if (!started()) fail_alone(kCall);
  if (is_lock(mutex)) return calling_node_of(kCall).condition_wait_at(condition, mutex);
  unsigned count = 0;
  {
    // A signal of a thread that has got the mutex since comes after the wait has begun: both need the guard.
    Guard guard(guard_of(mutex));
    release_under_guard(guard, mutex, &count);
    guard.wait_at(condition, kCall);
  }
  take_after_wait(mutex, count);
}

// ECANCELED: the caller can be cancelled, and is; it has the mutex.
int wait_in_memory(Condition& condition, pthread_mutex_t* mutex, const timespec* deadline, clockid_t clock,
                   bool can_end) {
  int result = 0;
  unsigned count = 0;
  {
    Guard guard(condition_guard_of(&condition));
    ++condition.waiting;
    const std::uint64_t began = condition.signals;
    release_for_wait(mutex, &count);
    if (can_end) tell_wait(condition_guard_of(&condition), wait_of(&condition));
    while (condition.permits == 0 || condition.signals == began) {
      if (can_end && is_cancelled()) {
        result = ECANCELED;
        break;
      }
      if (deadline == nullptr) {
        guard.wait(wait_of(&condition), "pthread_cond_wait()",
                   object_at(WaitedFor::Kind::kCondition, &condition));
      } else if (result = guard.sleep_before(*deadline, clock); result != 0) {
        break;
      }
    }
    --condition.waiting;
    if (result == 0) --condition.permits;
  }
  take_after_wait(mutex, count);
  return result;
}

int signal(pthread_cond_t* object, bool all) {
  if (is_condition(object)) {
    if (!started()) return 0;
    Node node = calling_node_of("pthread_cond_signal()");
    if (all)
      node.condition_broadcast_at(object);
    else
      node.condition_signal_at(object);
    return 0;
  }
  Condition& condition = of(object);
  Guard guard(condition_guard_of(&condition));
  if (condition.waiting > condition.permits) {
    condition.permits = all ? condition.waiting : condition.permits + 1;
    ++condition.signals;
    guard.wake(wait_of(&condition));
  }
  return 0;
}

int wait_before(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec& deadline, clockid_t clock,
                bool can_end) {
  if (!is_deadline(deadline, clock)) return EINVAL;
  if (is_errorcheck_and_not_held(mutex)) return EPERM;
  return wait_in_memory(of(condition), mutex, &deadline, clock, can_end);
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(pthread_cond_init)(pthread_cond_t* object, const pthread_condattr_t* attributes) {
  clockid_t clock = CLOCK_REALTIME;
  if (attributes != nullptr) ::pthread_condattr_getclock(attributes, &clock);
  of(object) = {};
  of(object).clock = clock;
  return 0;
}

int WRAPPED(pthread_cond_destroy)(pthread_cond_t*) {
  return 0;
}

int WRAPPED(pthread_cond_wait)(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  test_cancellation();
  const bool can_end = can_be_cancelled();
  const int result = on_private([=] {
    if (is_errorcheck_and_not_held(mutex)) return EPERM;
    if (is_condition(condition)) return wait_directly(condition, mutex), 0;
    return wait_in_memory(of(condition), mutex, nullptr, 0, can_end);
  });
  if (result == ECANCELED) end_cancelled();
  return result;
}

// For timed.cpp.
int braid_pthreads_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const timespec* until) {
  if (!is_for_limits(clock)) return EINVAL;
  const timespec deadline = *until;
  test_cancellation();
  const bool can_end = can_be_cancelled();
  const int result = on_private([=] { return wait_before(condition, mutex, deadline, clock, can_end); });
  if (result == ECANCELED) end_cancelled();
  return result;
}
int braid_pthreads_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return braid_pthreads_cond_clockwait(condition, mutex, of(condition).clock, until);
}

int WRAPPED(pthread_cond_signal)(pthread_cond_t* condition) {
  return on_private([=] { return signal(condition, false); });
}
int WRAPPED(pthread_cond_broadcast)(pthread_cond_t* condition) {
  return on_private([=] { return signal(condition, true); });
}

}  // extern "C"
