// Attributes of threads: what a program asks for, and what it is told. The C library's functions keep them but for what it would take
// from its own defaults and its own threads. Priorities are kept and have no effect: a signal, a lock and a processor's queue reach one
// process, and threads are in several.
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

bool is_priority(const Priority& priority) {
  const int low = ::sched_get_priority_min(priority.policy);
  const int high = ::sched_get_priority_max(priority.policy);
  return low >= 0 && priority.value >= low && priority.value <= high;
}

Priority priority_now(const Thread& thread) {
  const Guard guard(kThreadsLock);
  return thread.priority;
}

int set_priority(Thread& thread, const Priority& priority) {
  if (!is_priority(priority)) return EINVAL;
  const Guard guard(kThreadsLock);
  thread.priority = priority;
  return 0;
}

DefaultAttributes defaults_now() {
  DefaultAttributes defaults{};
  on_private([to = &defaults] {
    const Guard guard(kThreadsLock);
    *to = shared().defaults;
  });
  return defaults;
}

}  // namespace

bool says_detached(const pthread_attr_t* attributes) {
  int detach_state = PTHREAD_CREATE_JOINABLE;
  ::pthread_attr_getdetachstate(attributes, &detach_state);
  return detach_state == PTHREAD_CREATE_DETACHED;
}

std::optional<Priority> priority_of(const pthread_attr_t* attributes) {
  int inherits = PTHREAD_INHERIT_SCHED;
  ::pthread_attr_getinheritsched(attributes, &inherits);
  if (inherits != PTHREAD_EXPLICIT_SCHED) return std::nullopt;
  Priority priority{};
  sched_param parameters{};
  ::pthread_attr_getschedpolicy(attributes, &priority.policy);
  ::pthread_attr_getschedparam(attributes, &parameters);
  priority.value = parameters.sched_priority;
  return priority;
}

std::size_t default_stack_bytes(const DefaultAttributes& defaults) {
  return defaults.stack_bytes != 0 ? defaults.stack_bytes : kStackBytes;
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

// With a size, so that one that the program sets can be told from the C library's default, whatever that is.
int WRAPPED(pthread_attr_init)(pthread_attr_t* attributes) {
  if (const int error_number = ::pthread_attr_init(attributes); error_number != 0) return error_number;
  return ::pthread_attr_setstacksize(attributes, default_stack_bytes(defaults_now()));
}

// The C library's own defaults stay, for the runtime's threads are made with them.
int WRAPPED(pthread_setattr_default_np)(const pthread_attr_t* attributes) {
  DefaultAttributes defaults{};
  ::pthread_attr_getstacksize(attributes, &defaults.stack_bytes);
  defaults.detached = says_detached(attributes);
  defaults.has_mask = ::pthread_attr_getsigmask_np(attributes, &defaults.blocked) == 0;
  return on_private([defaults] {
    const Guard guard(kThreadsLock);
    shared().defaults = defaults;
    return 0;
  });
}
int WRAPPED(pthread_getattr_default_np)(pthread_attr_t* attributes) {
  const DefaultAttributes defaults = defaults_now();
  ::pthread_attr_init(attributes);
  ::pthread_attr_setstacksize(attributes, default_stack_bytes(defaults));
  if (defaults.detached) ::pthread_attr_setdetachstate(attributes, PTHREAD_CREATE_DETACHED);
  return defaults.has_mask ? ::pthread_attr_setsigmask_np(attributes, &defaults.blocked) : 0;
}

int WRAPPED(pthread_getattr_np)(pthread_t name, pthread_attr_t* attributes) {
  const Thread* const thread = current_thread();
  if (thread_of(name) != thread)
    on_private([] { refuse("pthread_getattr_np() of another thread", "a thread knows its own stack"); });
  const bool detached = on_private([=] {
    const Guard guard(kThreadsLock);
    return thread->detached;
  });
  ::pthread_attr_init(attributes);
  if (detached) ::pthread_attr_setdetachstate(attributes, PTHREAD_CREATE_DETACHED);
  return ::pthread_attr_setstack(attributes,
                                 reinterpret_cast<void*>(shared_stack.low + kGuardBytes),  // NOLINT
                                 shared_stack.bytes - kGuardBytes);
}

int WRAPPED(pthread_setschedparam)(pthread_t name, int policy, const sched_param* parameters) {
  Thread* const thread = thread_of(name);
  if (thread == nullptr) return ESRCH;
  const Priority priority{policy, parameters->sched_priority};
  return on_private([=] { return set_priority(*thread, priority); });
}
int WRAPPED(pthread_setschedprio)(pthread_t name, int value) {
  Thread* const thread = thread_of(name);
  if (thread == nullptr) return ESRCH;
  return on_private([=] { return set_priority(*thread, {priority_now(*thread).policy, value}); });
}
int WRAPPED(pthread_getschedparam)(pthread_t name, int* policy, sched_param* parameters) {
  const Thread* const thread = thread_of(name);
  if (thread == nullptr) return ESRCH;
  Priority priority{};
  on_private([thread, to = &priority] { *to = priority_now(*thread); });
  *policy = priority.policy;
  parameters->sched_priority = priority.value;
  return 0;
}

}  // extern "C"
