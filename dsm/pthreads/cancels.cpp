// Linked if the program calls pthread_cancel(): then threads look whether they are cancelled, and conditions have their state in
// memory, so that one that waits can be woken alone.
#include <pthread.h>

#include "dsm/pthreads/wrapped.h"

extern "C" {

extern const char braid_pthreads_cancels;
const char braid_pthreads_cancels = 1;

int WRAPPED(pthread_cancel)(pthread_t name) {
  return braid_pthreads_cancel(name);
}

}  // extern "C"
