// Calls that threads on several clusters cannot carry out: refused by name, with the place that calls. And those that only
// advise the system: accepted, without effect.
#include <aio.h>
#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

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

// Of a call that replaces the process by another program.
void refuse_replacing(const char* call) {
  if (braid::dsm::pthreads::is_run_process())
    refuse(
        call,
        "the process is one of several of the run; use posix_spawn(), wait for its end, and end with its status");
}

// The words of execl() and so on, with the nullptr at their end.
struct Words {
  std::vector<char*> all;
  Words(const char* first, va_list& rest) {
    for (const char* word = first; word != nullptr; word = va_arg(rest, const char*))
      all.push_back(const_cast<char*>(word));
    all.push_back(nullptr);
  }
};

void check_semaphores(const char* call) {
  if (!braid::dsm::pthreads::is_run_process() || !braid::dsm::pthreads::several_clusters()) return;
  refuse(call, "it does not order threads of several clusters; use sem_init() and sem_wait(), or a mutex");
}

void check_notification(const char* call, const sigevent* event, const char* cure) {
  if (event != nullptr && event->sigev_notify == SIGEV_THREAD) refuse(call, cure);
}

}  // namespace

#define REFUSED(name, parameters, why) \
  int WRAPPED(name) parameters {       \
    refuse(#name "()", why);           \
  }

extern "C" {

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

// What threads have written between two such calls is not seen in other clusters.
int WRAPPED(semop)(int set, sembuf* operations, std::size_t count) {
  check_semaphores("semop()");
  return ::semop(set, operations, count);
}
int WRAPPED(semtimedop)(int set, sembuf* operations, std::size_t count, const timespec* limit) {
  check_semaphores("semtimedop()");
  return ::semtimedop(set, operations, count, limit);
}
// The segment would be in the address space of one process.
void* WRAPPED(shmat)(int segment, const void* address, int flags) {
  if (braid::dsm::pthreads::is_run_process() && braid::dsm::pthreads::several_clusters())
    refuse(
        "shmat() after the first pthread_create()",
        "the segment would be one cluster's alone; attach it before, or use malloc(), which threads share");
  return ::shmat(segment, address, flags);
}

// Memory behind the end of the program's data is each cluster's own, also where main() has asked for it before.
void* WRAPPED(sbrk)(std::intptr_t bytes) {
  if (bytes > 0 && braid::dsm::pthreads::several_clusters_come())
    refuse("sbrk()", "the memory would be each cluster's own; use malloc(), or mmap() with MAP_ANONYMOUS");
  return ::sbrk(bytes);
}
int WRAPPED(brk)(void* end) {
  if (end > ::sbrk(0) && braid::dsm::pthreads::several_clusters_come())
    refuse("brk()", "the memory would be each cluster's own; use malloc(), or mmap() with MAP_ANONYMOUS");
  return ::brk(end);
}

// The process would be another program, and the other clusters wait for it. Not in a child of fork() or vfork().
#define REPLACING(name) refuse_replacing(#name "()")

int WRAPPED(execve)(const char* path, char* const* words, char* const* variables) {
  REPLACING(execve);
  return ::execve(path, words, variables);
}
int WRAPPED(execv)(const char* path, char* const* words) {
  REPLACING(execv);
  return ::execv(path, words);
}
int WRAPPED(execvp)(const char* name, char* const* words) {
  REPLACING(execvp);
  return ::execvp(name, words);
}
int WRAPPED(execvpe)(const char* name, char* const* words, char* const* variables) {
  REPLACING(execvpe);
  return ::execvpe(name, words, variables);
}
int WRAPPED(fexecve)(int file, char* const* words, char* const* variables) {
  REPLACING(fexecve);
  return ::fexecve(file, words, variables);
}
int WRAPPED(execl)(const char* path, const char* first, ...) {
  REPLACING(execl);
  va_list rest;
  va_start(rest, first);
  const Words words(first, rest);
  va_end(rest);
  return ::execv(path, words.all.data());
}
int WRAPPED(execlp)(const char* name, const char* first, ...) {
  REPLACING(execlp);
  va_list rest;
  va_start(rest, first);
  const Words words(first, rest);
  va_end(rest);
  return ::execvp(name, words.all.data());
}
int WRAPPED(execle)(const char* path, const char* first, ...) {
  REPLACING(execle);
  va_list rest;
  va_start(rest, first);
  const Words words(first, rest);
  char* const* const variables = va_arg(rest, char* const*);
  va_end(rest);
  return ::execve(path, words.all.data(), variables);
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
