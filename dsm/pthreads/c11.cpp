// <threads.h> of C11. Its objects are those of <pthread.h>, in places of the same size, and so are its calls, with other results.
// mtx_trylock(), mtx_timedlock() and cnd_timedwait() are in tries.cpp and timed.cpp.
#include <pthread.h>
#include <threads.h>

#include <bit>
#include <cstdint>

#include "dsm/pthreads/c11.h"
#include "dsm/pthreads/wrapped.h"

using braid::dsm::pthreads::c11_result_of;

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t));
static_assert(sizeof(once_flag) == sizeof(pthread_once_t) && PTHREAD_ONCE_INIT == 0);
static_assert(sizeof(thrd_t) == sizeof(pthread_t) && sizeof(tss_t) == sizeof(pthread_key_t));

namespace {

pthread_mutex_t* of(mtx_t* mutex) {
  return reinterpret_cast<pthread_mutex_t*>(mutex);
}
pthread_cond_t* of(cnd_t* condition) {
  return reinterpret_cast<pthread_cond_t*>(condition);
}

}  // namespace

extern "C" {

int WRAPPED(thrd_create)(thrd_t* name, thrd_start_t function, void* argument) {
  // The result is the lower half of what a function that returns a pointer would return there.
  return c11_result_of(
      WRAPPED(pthread_create)(name, nullptr, std::bit_cast<void* (*)(void*)>(function), argument));
}
int WRAPPED(thrd_join)(thrd_t name, int* result) {
  void* value = nullptr;
  const int error_number = WRAPPED(pthread_join)(name, &value);
  if (error_number == 0 && result != nullptr)
    *result = static_cast<int>(reinterpret_cast<std::intptr_t>(value));
  return c11_result_of(error_number);
}
int WRAPPED(thrd_detach)(thrd_t name) {
  return c11_result_of(WRAPPED(pthread_detach)(name));
}
[[noreturn]] void WRAPPED(thrd_exit)(int result) {
  WRAPPED(pthread_exit)(reinterpret_cast<void*>(static_cast<std::intptr_t>(result)));
}
thrd_t WRAPPED(thrd_current)() {
  return WRAPPED(pthread_self)();
}

int WRAPPED(mtx_init)(mtx_t* mutex, int type) {
  if ((type & ~(mtx_recursive | mtx_timed)) != 0) return thrd_error;
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  if ((type & mtx_recursive) != 0) ::pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  return c11_result_of(WRAPPED(pthread_mutex_init)(of(mutex), &attributes));
}
int WRAPPED(mtx_lock)(mtx_t* mutex) {
  return c11_result_of(WRAPPED(pthread_mutex_lock)(of(mutex)));
}
int WRAPPED(mtx_unlock)(mtx_t* mutex) {
  return c11_result_of(WRAPPED(pthread_mutex_unlock)(of(mutex)));
}

int WRAPPED(cnd_init)(cnd_t* condition) {
  return c11_result_of(WRAPPED(pthread_cond_init)(of(condition), nullptr));
}
int WRAPPED(cnd_wait)(cnd_t* condition, mtx_t* mutex) {
  return c11_result_of(WRAPPED(pthread_cond_wait)(of(condition), of(mutex)));
}
int WRAPPED(cnd_signal)(cnd_t* condition) {
  return c11_result_of(WRAPPED(pthread_cond_signal)(of(condition)));
}
int WRAPPED(cnd_broadcast)(cnd_t* condition) {
  return c11_result_of(WRAPPED(pthread_cond_broadcast)(of(condition)));
}

void WRAPPED(call_once)(once_flag* flag, void (*function)()) {
  (void)WRAPPED(pthread_once)(reinterpret_cast<pthread_once_t*>(flag), function);
}

int WRAPPED(tss_create)(tss_t* key, tss_dtor_t destructor) {
  return c11_result_of(WRAPPED(pthread_key_create)(key, destructor));
}
void WRAPPED(tss_delete)(tss_t key) {
  (void)WRAPPED(pthread_key_delete)(key);
}
int WRAPPED(tss_set)(tss_t key, void* value) {
  return c11_result_of(WRAPPED(pthread_setspecific)(key, value));
}
void* WRAPPED(tss_get)(tss_t key) {
  return WRAPPED(pthread_getspecific)(key);
}

}  // extern "C"
