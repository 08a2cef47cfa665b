// Calls that threads on several clusters cannot carry out: refused by name, with the place that calls. And those that only
// advise the system: accepted, without effect.
#include <aio.h>
#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "dsm/program/host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace {

[[noreturn]] void refuse(const char* call, const char* why) {
  braid::dsm::pthreads::on_private([=] { braid::dsm::pthreads::refuse(call, why); });
  __builtin_unreachable();
}

constexpr const char* kOneProcess = "a signal reaches one process, and threads are in several";
constexpr const char* kLibrarysThread =
    "the C library does it by a thread of its own, which cannot use shared memory; let a thread of the program call "
    "pread(), pwrite() or fsync()";

void check_notification(const char* call, const sigevent* event, const char* cure) {
  if (event != nullptr && event->sigev_notify == SIGEV_THREAD) refuse(call, cure);
}

}  // namespace

#define REFUSED(name, parameters, why) \
  int WRAPPED(name) parameters {       \
    refuse(#name "()", why);           \
  }

extern "C" {

REFUSED(pthread_cancel, (pthread_t), "let the thread look at a flag, and end itself")
REFUSED(pthread_sigqueue, (pthread_t, int, const union sigval), kOneProcess)
REFUSED(pthread_getcpuclockid, (pthread_t, clockid_t*),
        "use clock_gettime(CLOCK_THREAD_CPUTIME_ID), of the calling thread")

REFUSED(aio_read, (aiocb*), kLibrarysThread)
REFUSED(aio_read64, (aiocb*), kLibrarysThread)
REFUSED(aio_write, (aiocb*), kLibrarysThread)
REFUSED(aio_write64, (aiocb*), kLibrarysThread)
REFUSED(aio_fsync, (int, aiocb*), kLibrarysThread)
REFUSED(aio_fsync64, (int, aiocb*), kLibrarysThread)
REFUSED(lio_listio, (int, aiocb* const*, int, sigevent*), kLibrarysThread)
REFUSED(lio_listio64, (int, aiocb* const*, int, sigevent*), kLibrarysThread)

int WRAPPED(timer_create)(clockid_t clock, sigevent* event, timer_t* timer) {
  check_notification(
      "timer_create() with SIGEV_THREAD", event,
      "the C library calls the function in a thread of its own, which cannot use shared memory; let a "
      "thread of the program sleep, or use SIGEV_SIGNAL");
  return ::timer_create(clock, event, timer);
}
int WRAPPED(mq_notify)(mqd_t queue, const sigevent* event) {
  check_notification(
      "mq_notify() with SIGEV_THREAD", event,
      "the C library calls the function in a thread of its own, which cannot use shared memory; let a "
      "thread of the program wait in mq_receive(), or use SIGEV_SIGNAL");
  return ::mq_notify(queue, event);
}

// A child would have neither its stack nor the globals.
pid_t WRAPPED(fork)() {
  if (braid::dsm::pthreads::started() && !braid::dsm::is_forked_child())
    refuse(
        "fork()",
        "stacks and globals are shared memory, which no child has; use posix_spawn(), popen() or system()");
  return ::fork();
}

// The program's string is in memory that clusters share, and the environment is read before there is such memory, by clones too: it gets a copy.
int WRAPPED(putenv)(char* string) {
  const std::size_t bytes = std::strlen(string) + 1;
  char* const copy = static_cast<char*>(braid::dsm::pthreads::on_private([=] { return std::malloc(bytes); }));
  if (copy == nullptr) return errno = ENOMEM, -1;
  std::memcpy(copy, string, bytes);
  return braid::dsm::pthreads::on_private([=] { return ::putenv(copy); });
}

}  // extern "C"
