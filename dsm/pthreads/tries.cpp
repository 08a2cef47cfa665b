// Linked if the program calls one of these: mutexes that may be given up have their state in memory.
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include "dsm/pthreads/c11.h"
#include "dsm/pthreads/wrapped.h"

using braid::dsm::pthreads::c11_result_of;

extern "C" {

extern const char braid_pthreads_tries;
const char braid_pthreads_tries = 1;

int WRAPPED(pthread_mutex_trylock)(pthread_mutex_t* mutex) {
  return braid_pthreads_mutex_trylock(mutex);
}
int WRAPPED(pthread_mutex_timedlock)(pthread_mutex_t* mutex, const timespec* until) {
  return braid_pthreads_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}
int WRAPPED(pthread_mutex_clocklock)(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  return braid_pthreads_mutex_clocklock(mutex, clock, until);
}

int WRAPPED(mtx_trylock)(mtx_t* mutex) {
  return c11_result_of(braid_pthreads_mutex_trylock(reinterpret_cast<pthread_mutex_t*>(mutex)));
}
int WRAPPED(mtx_timedlock)(mtx_t* mutex, const timespec* until) {
  return c11_result_of(
      braid_pthreads_mutex_clocklock(reinterpret_cast<pthread_mutex_t*>(mutex), CLOCK_REALTIME, until));
}

}  // extern "C"
