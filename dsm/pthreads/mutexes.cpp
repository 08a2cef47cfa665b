// Mutexes and spin locks. A mutex is the lock of the machine at its address: its token stays in the cluster that uses it, and
// nothing is written where the mutex stands, or read but its kind. All mutexes of a program that calls one that does not wait for
// ever (pthread_mutex_trylock(), pthread_mutex_timedlock()), and those that are not in shared memory, have their state in
// memory, where a guard protects it: so many may be held at once in any order. A lock of the machine will not do there: a try may
// fail while its token is on its way, and a wait for it cannot end early.
#include <errno.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "dsm/program/failure.h"
#include "dsm/program/object_ids.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/clocks.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// As the C library's: zeros but for the kind, which its static initialisers set.
struct Mutex {
  std::uint32_t unused[2];
  std::uint32_t holder;  // a thread's index and 1, where the state is in memory; so are `awaited` and `count`
  std::uint32_t awaited;
  int kind;
  std::uint32_t count;
};
static_assert(sizeof(Mutex) <= sizeof(pthread_mutex_t) && offsetof(Mutex, kind) == 16);

Mutex& of(pthread_mutex_t* mutex) {
  return *reinterpret_cast<Mutex*>(mutex);
}
int kind_of(const Mutex& mutex) {
  return mutex.kind & 3;
}
// One with PTHREAD_PRIO_PROTECT has its ceiling above the kind. It has no effect.
constexpr int kHasCeiling = 1 << 8;
constexpr int kCeilingShift = 16;
int ceiling_of(const Mutex& mutex) {
  return mutex.kind >> kCeilingShift;
}
int with_ceiling(const Mutex& mutex, int ceiling) {
  return kind_of(mutex) | kHasCeiling | ceiling << kCeilingShift;
}
bool is_ceiling(int priority) {
  return priority >= ::sched_get_priority_min(SCHED_FIFO) && priority <= ::sched_get_priority_max(SCHED_FIFO);
}

std::uint32_t caller_index() {
  return static_cast<std::uint32_t>(current_thread() - shared().threads.data()) + 1;
}

Self::Held* held_by_caller(const Mutex& mutex) {
  for (unsigned i = 0; i < own.held_count; ++i)
    if (own.held[i].mutex == &mutex) return &own.held[i];
  return nullptr;
}

void forget(Self::Held* held) {
  *held = own.held[--own.held_count];
}

void forget_destroyed() {
  for (unsigned i = own.held_count; i-- > 0;)
    if (own.held[i].count == 0) forget(&own.held[i]);
}

[[noreturn]] void fail_held_already() {
  fail(
      "pthread_mutex_lock(){}: the calling thread has this mutex already, and would wait for itself: let a semaphore "
      "stand for a mutex that another thread unlocks",
      place_of_call().c_str());
}

// --- With a lock of the machine

void take_lock(const Mutex& mutex) {
  if (started()) return calling_node_of("pthread_mutex_lock()").lock_at(&mutex);
  check_fork_has_not_shared("pthread_mutex_lock()", &mutex);
  auto& early = early_locks();
  if (std::find(early.begin(), early.end(), &mutex) != early.end()) fail_held_already();
  early.push_back(&mutex);
}

int give_lock(const Mutex& mutex) {
  if (started()) return calling_node_of("pthread_mutex_unlock()").unlock_at(&mutex), 0;
  auto& early = early_locks();
  const auto found = std::find(early.begin(), early.end(), &mutex);
  if (found == early.end()) return EPERM;
  early.erase(found);
  return 0;
}

bool is_counted(const Mutex& mutex) {
  return kind_of(mutex) == PTHREAD_MUTEX_RECURSIVE_NP || kind_of(mutex) == PTHREAD_MUTEX_ERRORCHECK_NP;
}

int lock_direct(const Mutex& mutex) {
  Self::Held* const held = held_by_caller(mutex);
  if (held != nullptr && held->count > 0) {
    if (kind_of(mutex) == PTHREAD_MUTEX_ERRORCHECK_NP) return EDEADLK;
    if (kind_of(mutex) != PTHREAD_MUTEX_RECURSIVE_NP) fail_held_already();
    ++held->count;
    return 0;
  }
  if (held != nullptr) forget(held);
  take_lock(mutex);
  if (own.held_count == Self::kMaxHeld) forget_destroyed();
  if (own.held_count < Self::kMaxHeld) {
    own.held[own.held_count++] = {&mutex, 1};
  } else {
    if (is_counted(mutex))
      fail(
          "pthread_mutex_lock(){}: the calling thread has {} mutexes, and no more can be recursive or error-checking",
          place_of_call().c_str(), +Self::kMaxHeld);
    ++own.more_held;
  }
  return 0;
}

// The caller does not have it. A try may fail while the lock's token is on its way.
bool nobody_has(const Mutex& mutex) {
  if (!started()) return true;
  Node node = calling_node_of("pthread_mutex_unlock()");
  constexpr int kTries = 20;
  constexpr Duration kBetween = 1_ms;
  for (int i = 0; i < kTries; ++i) {
    if (node.try_lock_at(&mutex)) {
      node.unlock_at(&mutex);
      return true;
    }
    thread_host::sleep(kBetween);
  }
  return false;
}

int unlock_direct(const Mutex& mutex) {
  if (Self::Held* const held = held_by_caller(mutex)) {
    const bool destroyed = held->count == 0;
    if (!destroyed && --held->count > 0) return 0;
    forget(held);
    if (destroyed) return 0;
  } else {
    if (is_counted(mutex)) return EPERM;
    if (own.more_held == 0) {
      if (nobody_has(mutex)) return 0;  // as in the C library
      fail(
          "pthread_mutex_unlock(){}: another thread than the calling one has this mutex: let a semaphore stand for one that "
          "another thread unlocks",
          place_of_call().c_str());
    }
    --own.more_held;
  }
  return give_lock(mutex);
}

// The place of a mutex that the caller may have gets another use: nobody has that one.
void begin_again(const Mutex& mutex) {
  Self::Held* const held = held_by_caller(mutex);
  if (held == nullptr) return;
  if (held->count > 0) (void)give_lock(mutex);
  forget(held);
}

// The caller destroys a mutex that it has. Programs free its memory, all the same; others unlock it.
void destroy_held(const Mutex& mutex, Self::Held& held) {
  if (held.count > 0) (void)give_lock(mutex);
  held.count = 0;
}

// --- With its state in memory, under its guard

int lock_in_memory(Guard& guard, Mutex& mutex, const timespec* deadline, clockid_t clock) {
  const std::uint32_t caller = caller_index();
  if (mutex.holder == caller) {
    if (kind_of(mutex) == PTHREAD_MUTEX_RECURSIVE_NP) return ++mutex.count, 0;
    if (kind_of(mutex) == PTHREAD_MUTEX_ERRORCHECK_NP) return EDEADLK;
    if (deadline == nullptr) fail_held_already();
  }
  while (mutex.holder != 0) {
    if (deadline != nullptr) {
      if (const int error_number = guard.sleep_before(*deadline, clock); error_number != 0)
        return error_number;
      continue;
    }
    mutex.awaited = 1;
    guard.wait(wait_of(&mutex), "pthread_mutex_lock()", object_at(WaitedFor::Kind::kMutex, &mutex));
  }
  mutex.holder = caller;
  mutex.count = 1;
  return 0;
}

int unlock_in_memory(Guard& guard, Mutex& mutex) {
  if (mutex.holder != caller_index()) {
    if (kind_of(mutex) != PTHREAD_MUTEX_NORMAL) return EPERM;
    if (mutex.holder == 0) return 0;
  } else if (--mutex.count > 0) {
    return 0;
  }
  mutex.holder = 0;
  if (mutex.awaited != 0) {
    mutex.awaited = 0;
    guard.wake(wait_of(&mutex));
  }
  return 0;
}

// Programs' spin locks are mutexes in a smaller place.
struct Spin {
  std::uint32_t state;  // 0: free; a thread's index and 1; the highest bit: awaited
};
static_assert(sizeof(Spin) == sizeof(pthread_spinlock_t));
constexpr std::uint32_t kAwaited = 1u << 31;

Spin& of(pthread_spinlock_t* lock) {
  return *reinterpret_cast<Spin*>(const_cast<int*>(lock));
}

}  // namespace

bool is_lock(const pthread_mutex_t* mutex) {
  return !uses_tries() && can_name_object(mutex);
}

bool is_errorcheck_and_not_held(pthread_mutex_t* mutex) {
  if (kind_of(of(mutex)) != PTHREAD_MUTEX_ERRORCHECK_NP) return false;
  if (is_lock(mutex)) {
    const Self::Held* const held = held_by_caller(of(mutex));
    return held == nullptr || held->count == 0;
  }
  const Guard guard(guard_of(mutex));
  return of(mutex).holder != caller_index();
}

void release_under_guard(Guard& guard, pthread_mutex_t* mutex, unsigned* count) {
  *count = of(mutex).count;
  of(mutex).count = 1;
  if (unlock_in_memory(guard, of(mutex)) != 0)
    fail("pthread_cond_wait(){}: the calling thread does not have the mutex", place_of_call().c_str());
}

void release_for_wait(pthread_mutex_t* mutex, unsigned* count) {
  if (is_lock(mutex)) {
    *count = 0;
    if (give_lock(of(mutex)) != 0)
      fail("pthread_cond_wait(){}: the calling thread does not have the mutex", place_of_call().c_str());
    return;
  }
  Guard guard(guard_of(mutex));
  release_under_guard(guard, mutex, count);
}

void take_after_wait(pthread_mutex_t* mutex, unsigned count) {
  if (is_lock(mutex)) return take_lock(of(mutex));
  Guard guard(guard_of(mutex));
  (void)lock_in_memory(guard, of(mutex), nullptr, 0);
  of(mutex).count = count;
}

namespace {

int lock_before(pthread_mutex_t* mutex, const timespec* deadline, clockid_t clock) {
  before_try();
  Guard guard(guard_of(mutex));
  return lock_in_memory(guard, of(mutex), deadline, clock);
}
int try_spin(Spin& spin) {
  before_try();
  const Guard guard(guard_of(&spin));
  if ((spin.state & ~kAwaited) != 0) return EBUSY;
  spin.state |= caller_index();
  return 0;
}
int try_lock(pthread_mutex_t* mutex) {
  before_try();
  Guard guard(guard_of(mutex));
  Mutex& m = of(mutex);
  if (m.holder == 0) return lock_in_memory(guard, m, nullptr, 0);
  if (m.holder != caller_index() || kind_of(m) != PTHREAD_MUTEX_RECURSIVE_NP) return EBUSY;
  ++m.count;
  return 0;
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(pthread_mutex_init)(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) {
  int kind = PTHREAD_MUTEX_NORMAL, robust = PTHREAD_MUTEX_STALLED, protocol = PTHREAD_PRIO_NONE, ceiling = 0;
  if (attributes != nullptr) {
    ::pthread_mutexattr_gettype(attributes, &kind);
    ::pthread_mutexattr_getrobust(attributes, &robust);
    ::pthread_mutexattr_getprotocol(attributes, &protocol);
    ::pthread_mutexattr_getprioceiling(attributes, &ceiling);
  }
  return on_private([=] {
    if (robust != PTHREAD_MUTEX_STALLED)
      refuse("pthread_mutex_init() of a robust mutex", "threads do not die one by one");
    if (is_lock(mutex)) begin_again(of(mutex));
    of(mutex) = {};
    of(mutex).kind = kind;
    if (protocol == PTHREAD_PRIO_PROTECT) of(mutex).kind = with_ceiling(of(mutex), ceiling);
    return 0;
  });
}

int WRAPPED(pthread_mutex_destroy)(pthread_mutex_t* mutex) {
  return on_private([=] {
    if (!is_lock(mutex)) return of(mutex).holder != 0 ? EBUSY : 0;
    Self::Held* const held = held_by_caller(of(mutex));
    if (held == nullptr) return 0;
    destroy_held(of(mutex), *held);
    return EBUSY;
  });
}

int WRAPPED(pthread_mutex_lock)(pthread_mutex_t* mutex) {
  return on_private([=] {
    if (is_lock(mutex)) return lock_direct(of(mutex));
    check_fork_has_not_shared("pthread_mutex_lock()", mutex);
    return lock_before(mutex, nullptr, 0);
  });
}

int WRAPPED(pthread_mutex_unlock)(pthread_mutex_t* mutex) {
  return on_private([=] {
    if (is_lock(mutex)) return unlock_direct(of(mutex));
    Guard guard(guard_of(mutex));
    return unlock_in_memory(guard, of(mutex));
  });
}

int WRAPPED(pthread_mutex_getprioceiling)(const pthread_mutex_t* mutex, int* ceiling) {
  const Mutex& m = of(const_cast<pthread_mutex_t*>(mutex));
  if ((m.kind & kHasCeiling) == 0) return EINVAL;
  *ceiling = ceiling_of(m);
  return 0;
}
int WRAPPED(pthread_mutex_setprioceiling)(pthread_mutex_t* mutex, int ceiling, int* before) {
  if ((of(mutex).kind & kHasCeiling) == 0 || !is_ceiling(ceiling)) return EINVAL;
  if (const int error_number = WRAPPED(pthread_mutex_lock)(mutex); error_number != 0) return error_number;
  if (before != nullptr) *before = ceiling_of(of(mutex));
  of(mutex).kind = with_ceiling(of(mutex), ceiling);
  return WRAPPED(pthread_mutex_unlock)(mutex);
}
// No mutex is robust.
int WRAPPED(pthread_mutex_consistent)(pthread_mutex_t*) {
  return EINVAL;
}

// For tries.cpp.
int braid_pthreads_mutex_trylock(pthread_mutex_t* mutex) {
  return on_private([=] { return after_try(try_lock(mutex), EBUSY); });
}
int braid_pthreads_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (!is_for_limits(clock)) return EINVAL;
  const timespec deadline = *until;
  return on_private([=] { return lock_before(mutex, &deadline, clock); });
}

int WRAPPED(pthread_spin_init)(pthread_spinlock_t* lock, int) {
  of(lock).state = 0;
  return 0;
}
int WRAPPED(pthread_spin_destroy)(pthread_spinlock_t*) {
  return 0;
}
int WRAPPED(pthread_spin_lock)(pthread_spinlock_t* lock) {
  return on_private([=] {
    Guard guard(guard_of(&of(lock)));
    Spin& spin = of(lock);
    if ((spin.state & ~kAwaited) == caller_index()) return EDEADLK;
    while (spin.state != 0 && spin.state != kAwaited) {
      spin.state |= kAwaited;
      guard.wait(wait_of(&spin), "pthread_spin_lock()", object_at(WaitedFor::Kind::kSpinLock, &spin));
    }
    // After a wait others may still be waiting.
    spin.state |= caller_index();
    return 0;
  });
}
int WRAPPED(pthread_spin_trylock)(pthread_spinlock_t* lock) {
  return on_private([=] { return after_try(try_spin(of(lock)), EBUSY); });
}
int WRAPPED(pthread_spin_unlock)(pthread_spinlock_t* lock) {
  return on_private([=] {
    Guard guard(guard_of(&of(lock)));
    const bool awaited = (of(lock).state & kAwaited) != 0;
    of(lock).state = 0;
    if (awaited) guard.wake(wait_of(&of(lock)));
    return 0;
  });
}

}  // extern "C"
