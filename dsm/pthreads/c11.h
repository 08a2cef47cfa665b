// What the calls of <threads.h> return.
#pragma once

#include <errno.h>
#include <threads.h>

namespace braid::dsm::pthreads {

// For the error number that the call of <pthread.h> has returned.
inline int c11_result_of(int error_number) {
  switch (error_number) {
    case 0:
      return thrd_success;
    case ENOMEM:
      return thrd_nomem;
    case EBUSY:
      return thrd_busy;
    case ETIMEDOUT:
      return thrd_timedout;
    default:
      return thrd_error;
  }
}

}  // namespace braid::dsm::pthreads
