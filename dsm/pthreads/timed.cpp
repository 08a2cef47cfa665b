// Linked if the program calls one of these: conditions that may be given up have their state in memory.
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include "dsm/pthreads/c11.h"
#include "dsm/pthreads/wrapped.h"

using braid::dsm::pthreads::c11_result_of;

extern "C" {

extern const char braid_pthreads_timed;
const char braid_pthreads_timed = 1;

int WRAPPED(pthread_cond_timedwait)(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                    const timespec* until) {
  return braid_pthreads_cond_timedwait(condition, mutex, until);
}
int WRAPPED(pthread_cond_clockwait)(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                    const timespec* until) {
  return braid_pthreads_cond_clockwait(condition, mutex, clock, until);
}

int WRAPPED(cnd_timedwait)(cnd_t* condition, mtx_t* mutex, const timespec* until) {
  return c11_result_of(braid_pthreads_cond_timedwait(reinterpret_cast<pthread_cond_t*>(condition),
                                                     reinterpret_cast<pthread_mutex_t*>(mutex), until));
}

}  // extern "C"
