// Handlers of the program's signals run on the thread's stack for signals: the kernel does not wait for a page of the stack
// that is interrupted, which is in shared memory.
#include <signal.h>

#include "dsm/pthreads/wrapped.h"

extern "C" {

int WRAPPED(sigaction)(int number, const struct sigaction* wanted, struct sigaction* former) {
  if (wanted == nullptr) return ::sigaction(number, nullptr, former);
  struct sigaction action = *wanted;
  action.sa_flags |= SA_ONSTACK;
  return ::sigaction(number, &action, former);
}

sighandler_t WRAPPED(signal)(int number, sighandler_t handler) {
  struct sigaction action = {}, former = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(number, &action, &former) == 0 ? former.sa_handler : SIG_ERR;
}

}  // extern "C"
