// Barriers, read-write locks, semaphores and pthread_once(). A barrier has a word of the machine and two of its semaphores;
// the state of the others is in memory, where a guard protects it.
#include <errno.h>
#include <limits.h>
#include <semaphore.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "dsm/program/failure.h"
#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/clocks.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

struct Barrier {
  std::uint32_t number;
  std::uint32_t stamp;
  std::uint32_t count;
};
static_assert(sizeof(Barrier) <= sizeof(pthread_barrier_t));

// The word: how many have come, and above it the number of the episode. The last one begins the next episode and wakes the
// others through one of two semaphores, in turn: one that waits in the episode before has left its semaphore when this one is
// used again.
//
//    63      32 31       0
//    | episode | come    |
int wait_at(const Barrier& barrier, unsigned index) {
  constexpr auto kCall = "pthread_barrier_wait()";
  const std::uint32_t count = barrier.count;
  if (!started()) {
    if (count > 1) fail_alone(kCall);
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  Node node = calling_node_of(kCall);
  const std::int64_t before = node.fetch_add(index, 1);
  const std::int64_t episode = before >> 32;
  const unsigned semaphore = kBarrierSemaphores + 2 * index + static_cast<unsigned>(episode & 1);
  if ((before & 0xffff'ffff) + 1 < count) {
    wait_for_semaphore(semaphore, kCall, object_at(WaitedFor::Kind::kBarrier, &barrier));
    return 0;
  }
  node.store(index, (episode + 1) << 32);
  if (count > 1) node.semaphore_post(semaphore, count - 1);
  return PTHREAD_BARRIER_SERIAL_THREAD;
}

// As the C library's: zeros but for the kind, which one of its static initialisers sets.
struct ReadWriteLock {
  static constexpr WaitedFor::Kind kKind = WaitedFor::Kind::kReadWriteLock;
  std::uint32_t readers;
  std::uint32_t writer;  // a thread's index and 1
  std::uint32_t awaited;
  std::uint32_t waiting_writers;
  std::uint32_t unused[8];
  std::int32_t kind;
};
static_assert(sizeof(ReadWriteLock) <= sizeof(pthread_rwlock_t) && offsetof(ReadWriteLock, kind) == 48);

// The only kind whose readers wait while writers do, as in the C library.
bool lets_writers_first(const ReadWriteLock& lock) {
  return lock.kind == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

struct Semaphore {
  static constexpr WaitedFor::Kind kKind = WaitedFor::Kind::kSemaphore;
  std::uint32_t value;
  std::uint32_t awaited;
};
static_assert(sizeof(Semaphore) <= sizeof(sem_t));

std::uint32_t caller_index() {
  return static_cast<std::uint32_t>(current_thread() - shared().threads.data()) + 1;
}

enum class Patience : std::uint8_t { kNone, kUntil, kForEver };
struct Wait {
  Patience patience = Patience::kForEver;
  timespec deadline{};
  clockid_t clock = CLOCK_REALTIME;
  bool can_end = false;  // by ECANCELED
};
constexpr Wait kNoWait{.patience = Patience::kNone};

// As in the C library these calls look at the time even if they need not wait.
bool has_bad_deadline(const Wait& wait) {
  return wait.patience == Patience::kUntil && !is_deadline(wait.deadline, wait.clock);
}

// Waits until ready(), which changes the state; returns 0, ETIMEDOUT, ECANCELED or `busy`.
template <class Object, class Ready>
int wait_or_give_up(const char* call, Object& object, const Wait& wait, int busy, Ready&& ready) {
  Guard guard(guard_of(&object));
  while (!ready()) {
    if (wait.patience == Patience::kNone) return busy;
    if (wait.can_end) tell_wait(guard_of(&object), wait_of(&object));
    if (wait.can_end && is_cancelled()) return ECANCELED;
    if (wait.patience == Patience::kUntil) {
      if (const int error_number = guard.sleep_before(wait.deadline, wait.clock); error_number != 0)
        return error_number;
      continue;
    }
    object.awaited = 1;
    guard.wait(wait_of(&object), call, object_at(Object::kKind, &object));
  }
  return 0;
}
template <class Object, class Ready>
int wait_until(const char* call, Object& object, const Wait& wait, int busy, Ready&& ready) {
  before_try();
  const int result = wait_or_give_up(call, object, wait, busy, ready);
  return wait.patience == Patience::kNone ? after_try(result, busy) : result;
}
template <class Object>
void wake(Guard& guard, Object& object) {
  if (object.awaited == 0) return;
  object.awaited = 0;
  guard.wake(wait_of(&object));
}

int read_lock(pthread_rwlock_t* lock, const Wait& wait) {
  if (has_bad_deadline(wait)) return EINVAL;
  return on_private([=] {
    auto& l = *reinterpret_cast<ReadWriteLock*>(lock);
    const std::uint32_t caller = caller_index();
    if (l.writer == caller) return EDEADLK;
    return wait_until("pthread_rwlock_rdlock()", l, wait, EBUSY, [&] {
      const bool others_first = lets_writers_first(l) && l.waiting_writers > 0;
      return l.writer == 0 && !others_first && ++l.readers > 0;
    });
  });
}
int write_lock(pthread_rwlock_t* lock, const Wait& wait) {
  if (has_bad_deadline(wait)) return EINVAL;
  return on_private([=] {
    auto& l = *reinterpret_cast<ReadWriteLock*>(lock);
    const std::uint32_t caller = caller_index();
    if (l.writer == caller) return wait.patience == Patience::kNone ? EBUSY : EDEADLK;
    bool waits = false;
    const int result = wait_until("pthread_rwlock_wrlock()", l, wait, EBUSY, [&] {
      const bool ready = l.writer == 0 && l.readers == 0;
      if (ready) l.writer = caller;
      if (ready && waits) --l.waiting_writers;
      if (!ready && !waits && wait.patience != Patience::kNone) {
        ++l.waiting_writers;
        waits = true;
      }
      return ready;
    });
    if (result == 0 || !waits) return result;
    // It has given up, so readers may go on that let it go first.
    Guard guard(guard_of(&l));
    if (--l.waiting_writers == 0) wake(guard, l);
    return result;
  });
}

int wait_for(sem_t* semaphore, Wait wait) {
  if (has_bad_deadline(wait)) return errno = EINVAL, -1;
  if (wait.patience != Patience::kNone) {
    test_cancellation();
    wait.can_end = can_be_cancelled();
  }
  const int error_number = on_private([=] {
    auto& s = *reinterpret_cast<Semaphore*>(semaphore);
    check_fork_has_not_shared("sem_wait()", semaphore);
    return wait_until("sem_wait()", s, wait, EAGAIN, [&] { return s.value > 0 && s.value-- > 0; });
  });
  if (error_number == ECANCELED) end_cancelled();
  return error_number == 0 ? 0 : (errno = error_number, -1);
}

// --- pthread_once()

enum Once : int { kNew = PTHREAD_ONCE_INIT, kRuns = 1, kDone = 2 };

// Controls that this cluster has seen done, with all that was written before.
std::array<std::atomic<pthread_once_t*>, 64> seen_done;
std::atomic<pthread_once_t*>& seen_at(pthread_once_t* control) {
  return seen_done[mixed(control) % seen_done.size()];
}

// True: the caller is to run it.
bool begin_once(pthread_once_t* control) {
  keep_order();
  if (__atomic_load_n(control, __ATOMIC_ACQUIRE) == kDone && seen_at(control) == control) return false;
  Guard guard(guard_of(control));
  while (*control == kRuns)
    guard.wait(wait_of(control), "pthread_once()", object_at(WaitedFor::Kind::kOnce, control));
  if (*control == kDone) {
    keep_order();
    seen_at(control) = control;
    return false;
  }
  *control = kRuns;
  return true;
}
void end_once(pthread_once_t* control, Once state) {
  Guard guard(guard_of(control));
  *control = state;
  guard.wake(wait_of(control));
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(pthread_barrier_init)(pthread_barrier_t* object, const pthread_barrierattr_t*, unsigned count) {
  if (count == 0 || count > INT_MAX) return EINVAL;  // as in the C library
  return on_private([=] {
    auto& barrier = *reinterpret_cast<Barrier*>(object);
    barrier.count = count;
    if (number_in(shared().barriers, &barrier.number, &barrier.stamp) == kNoNumber)
      fail(
          "pthread_barrier_init(){}: the program uses more than {} barriers at once; pthread_barrier_destroy() gives one back",
          place_of_call().c_str(), +kMaxBarriers);
    return 0;
  });
}
int WRAPPED(pthread_barrier_destroy)(pthread_barrier_t* object) {
  return on_private([=] {
    auto& barrier = *reinterpret_cast<Barrier*>(object);
    give_number(shared().barriers, &barrier.number, &barrier.stamp);
    return 0;
  });
}
int WRAPPED(pthread_barrier_wait)(pthread_barrier_t* object) {
  return on_private([=] {
    const auto& barrier = *reinterpret_cast<const Barrier*>(object);
    if (barrier.number == 0 || barrier.stamp != stamp_of(&barrier.number, barrier.number))
      fail("pthread_barrier_wait(){}: the barrier was not initialised", place_of_call().c_str());
    return wait_at(barrier, barrier.number - 1);
  });
}

int WRAPPED(pthread_rwlock_init)(pthread_rwlock_t* lock, const pthread_rwlockattr_t* attributes) {
  int kind = PTHREAD_RWLOCK_DEFAULT_NP;
  if (attributes != nullptr) ::pthread_rwlockattr_getkind_np(attributes, &kind);
  auto& l = *reinterpret_cast<ReadWriteLock*>(lock);
  l = {};
  l.kind = kind;
  return 0;
}
int WRAPPED(pthread_rwlock_destroy)(pthread_rwlock_t*) {
  return 0;
}
int WRAPPED(pthread_rwlock_rdlock)(pthread_rwlock_t* lock) {
  return read_lock(lock, {});
}
int WRAPPED(pthread_rwlock_tryrdlock)(pthread_rwlock_t* lock) {
  const int result = read_lock(lock, kNoWait);
  return result == EDEADLK ? EBUSY : result;
}
int WRAPPED(pthread_rwlock_timedrdlock)(pthread_rwlock_t* lock, const timespec* until) {
  return read_lock(lock, {Patience::kUntil, *until, CLOCK_REALTIME});
}
int WRAPPED(pthread_rwlock_clockrdlock)(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
  return is_for_limits(clock) ? read_lock(lock, {Patience::kUntil, *until, clock}) : EINVAL;
}
int WRAPPED(pthread_rwlock_wrlock)(pthread_rwlock_t* lock) {
  return write_lock(lock, {});
}
int WRAPPED(pthread_rwlock_trywrlock)(pthread_rwlock_t* lock) {
  return write_lock(lock, kNoWait);
}
int WRAPPED(pthread_rwlock_timedwrlock)(pthread_rwlock_t* lock, const timespec* until) {
  return write_lock(lock, {Patience::kUntil, *until, CLOCK_REALTIME});
}
int WRAPPED(pthread_rwlock_clockwrlock)(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
  return is_for_limits(clock) ? write_lock(lock, {Patience::kUntil, *until, clock}) : EINVAL;
}
int WRAPPED(pthread_rwlock_unlock)(pthread_rwlock_t* lock) {
  return on_private([=] {
    auto& l = *reinterpret_cast<ReadWriteLock*>(lock);
    Guard guard(guard_of(&l));
    if (l.writer != 0) {
      if (l.writer != caller_index()) return EPERM;
      l.writer = 0;
    } else {
      if (l.readers == 0) return EPERM;
      --l.readers;
    }
    if (l.readers == 0) wake(guard, l);
    return 0;
  });
}

int WRAPPED(sem_init)(sem_t* semaphore, int, unsigned value) {
  if (value > SEM_VALUE_MAX) return errno = EINVAL, -1;
  *reinterpret_cast<Semaphore*>(semaphore) = {value, 0};
  return 0;
}
int WRAPPED(sem_destroy)(sem_t*) {
  return 0;
}
int WRAPPED(sem_wait)(sem_t* semaphore) {
  return wait_for(semaphore, {});
}
int WRAPPED(sem_trywait)(sem_t* semaphore) {
  return wait_for(semaphore, kNoWait);
}
int WRAPPED(sem_timedwait)(sem_t* semaphore, const timespec* until) {
  return wait_for(semaphore, {Patience::kUntil, *until, CLOCK_REALTIME});
}
int WRAPPED(sem_clockwait)(sem_t* semaphore, clockid_t clock, const timespec* until) {
  if (!is_for_limits(clock)) return errno = EINVAL, -1;
  return wait_for(semaphore, {Patience::kUntil, *until, clock});
}
int WRAPPED(sem_post)(sem_t* semaphore) {
  const int error_number = on_private([=] {
    auto& s = *reinterpret_cast<Semaphore*>(semaphore);
    Guard guard(guard_of(&s));
    if (s.value == SEM_VALUE_MAX) return EOVERFLOW;
    ++s.value;
    wake(guard, s);
    return 0;
  });
  return error_number == 0 ? 0 : (errno = error_number, -1);
}
int WRAPPED(sem_getvalue)(sem_t* semaphore, int* value) {
  *value = on_private([=] {
    const Guard guard(guard_of(semaphore));
    return static_cast<int>(reinterpret_cast<const Semaphore*>(semaphore)->value);
  });
  return 0;
}

int WRAPPED(pthread_once)(pthread_once_t* control, void (*routine)()) {
  if (!on_private([=] { return begin_once(control); })) return 0;
  try {
    routine();
  } catch (...) {
    on_private([=] { end_once(control, kNew); });
    throw;
  }
  on_private([=] { end_once(control, kDone); });
  return 0;
}

}  // extern "C"
