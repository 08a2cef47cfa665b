/* What calls answer to arguments that are wrong, unusual or at a limit: one line each, which are those of the C library. By main() before there are
   threads, by a thread, and by main() when there are threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const char* who;

static const char* name_of(long answer) {
  static char number[32];
  if (answer == 0) return "0";
  const char* const name = answer > 0 && answer < 200 ? strerrorname_np((int)answer) : 0;
  if (name != 0) return name;
  snprintf(number, sizeof number, "%ld", answer);
  return number;
}

#define ANSWER(call) printf("%s: %s: %s\n", who, #call, name_of(call))
#define VALUE(what) printf("%s: %s: %ld\n", who, #what, (long)(what))
/* Of calls that set errno. */
#define RESULT(call)                                                                              \
  do {                                                                                            \
    errno = 0;                                                                                    \
    const int failed = (call) == -1;                                                              \
    printf("%s: %s: %s\n", who, #call, failed ? name_of(errno) : errno == 0 ? "0" : "errno set"); \
  } while (0)
#define NONE(call)                            \
  do {                                        \
    errno = 0;                                \
    const void* const got = (call);           \
    const int number = errno;                 \
    printf("%s: %s: %s, %s\n", who, #call,    \
           got == 0            ? "none"       \
           : got == MAP_FAILED ? "failed"     \
                               : "something", \
           name_of(number));                  \
  } while (0)

static const struct timespec past = {1, 0}, bad = {1, 1000000000}, before_all = {-1, 0}, negative = {1, -1};

static void attributes(void) {
  pthread_attr_t a;
  struct sched_param priority = {100};
  size_t bytes;
  int number;
  void* address;
  ANSWER(pthread_attr_init(&a));
  ANSWER(pthread_attr_setstacksize(&a, 0));
  ANSWER(pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN - 1));
  ANSWER(pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN));
  ANSWER(pthread_attr_getstacksize(&a, &bytes));
  VALUE(bytes);
  ANSWER(pthread_attr_setguardsize(&a, 0));
  ANSWER(pthread_attr_setguardsize(&a, 123456));
  ANSWER(pthread_attr_getguardsize(&a, &bytes));
  VALUE(bytes);
  ANSWER(pthread_attr_setdetachstate(&a, 7));
  ANSWER(pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED));
  ANSWER(pthread_attr_getdetachstate(&a, &number));
  VALUE(number);
  ANSWER(pthread_attr_setinheritsched(&a, 9));
  ANSWER(pthread_attr_setschedpolicy(&a, 99));
  ANSWER(pthread_attr_setschedparam(&a, &priority));
  ANSWER(pthread_attr_setscope(&a, PTHREAD_SCOPE_PROCESS));
  ANSWER(pthread_attr_setscope(&a, 9));
  ANSWER(pthread_attr_setstack(&a, &a, 100));
  ANSWER(pthread_attr_setstack(&a, (void*)(1 << 20), 1 << 20));
  ANSWER(pthread_attr_getstack(&a, &address, &bytes));
  VALUE(address);
  VALUE(bytes);
  ANSWER(pthread_attr_destroy(&a));
}

static void mutex_attributes(void) {
  pthread_mutexattr_t a;
  pthread_mutex_t m;
  int number;
  ANSWER(pthread_mutexattr_init(&a));
  ANSWER(pthread_mutexattr_settype(&a, 99));
  ANSWER(pthread_mutexattr_settype(&a, -1));
  ANSWER(pthread_mutexattr_setpshared(&a, 9));
  ANSWER(pthread_mutexattr_setprotocol(&a, 9));
  ANSWER(pthread_mutexattr_setrobust(&a, 9));
  ANSWER(pthread_mutexattr_setprioceiling(&a, 0));
  ANSWER(pthread_mutexattr_setprioceiling(&a, 1000));
  ANSWER(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT));
  ANSWER(pthread_mutex_init(&m, &a));
  ANSWER(pthread_mutex_lock(&m));
  ANSWER(pthread_mutex_unlock(&m));
  ANSWER(pthread_mutex_getprioceiling(&m, &number));
  ANSWER(pthread_mutex_setprioceiling(&m, 10, &number));
  ANSWER(pthread_mutex_consistent(&m));
  ANSWER(pthread_mutex_destroy(&m));
  ANSWER(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_PROTECT));
  ANSWER(pthread_mutexattr_setprioceiling(&a, 20));
  ANSWER(pthread_mutex_init(&m, &a));
  ANSWER(pthread_mutex_getprioceiling(&m, &number));
  VALUE(number);
  ANSWER(pthread_mutex_setprioceiling(&m, 1000, &number));
  ANSWER(pthread_mutex_destroy(&m));
  ANSWER(pthread_mutexattr_destroy(&a));
}

static void mutexes(void) {
  static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
  pthread_mutexattr_t a;
  pthread_mutex_t m;
  for (int i = 0; i < 3; ++i) {
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, kinds[i]);
    VALUE(kinds[i]);
    ANSWER(pthread_mutex_init(&m, &a));
    if (kinds[i] != PTHREAD_MUTEX_NORMAL) ANSWER(pthread_mutex_unlock(&m));
    ANSWER(pthread_mutex_lock(&m));
    ANSWER(pthread_mutex_destroy(&m));
    ANSWER(pthread_mutex_unlock(&m));
    ANSWER(pthread_mutex_init(&m, &a));
    ANSWER(pthread_mutex_lock(&m));
    if (kinds[i] == PTHREAD_MUTEX_ERRORCHECK) ANSWER(pthread_mutex_lock(&m));
    if (kinds[i] == PTHREAD_MUTEX_RECURSIVE) ANSWER(pthread_mutex_lock(&m));
    if (kinds[i] == PTHREAD_MUTEX_RECURSIVE) ANSWER(pthread_mutex_unlock(&m));
    ANSWER(pthread_mutex_unlock(&m));
    ANSWER(pthread_mutex_destroy(&m));
  }
}

#ifdef TRIES
static void* try_from_elsewhere(void* p) {
  pthread_mutex_t* const m = p;
  ANSWER(pthread_mutex_trylock(m));
  ANSWER(pthread_mutex_timedlock(m, &past));
  ANSWER(pthread_mutex_timedlock(m, &before_all));
  ANSWER(pthread_mutex_timedlock(m, &bad));
  ANSWER(pthread_mutex_timedlock(m, &negative));
  ANSWER(pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &past));
  ANSWER(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past));
  return 0;
}

static void tries(void) {
  static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
  static pthread_mutex_t m;
  pthread_mutexattr_t a;
  pthread_t thread;
  for (int i = 0; i < 3; ++i) {
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, kinds[i]);
    ANSWER(pthread_mutex_init(&m, &a));
    ANSWER(pthread_mutex_trylock(&m));
    ANSWER(pthread_mutex_trylock(&m));
    if (kinds[i] == PTHREAD_MUTEX_RECURSIVE) ANSWER(pthread_mutex_unlock(&m));
    ANSWER(pthread_create(&thread, 0, try_from_elsewhere, &m));
    ANSWER(pthread_join(thread, 0));
    ANSWER(pthread_mutex_unlock(&m));
    ANSWER(pthread_mutex_timedlock(&m, &bad));
    if (kinds[i] == PTHREAD_MUTEX_ERRORCHECK) ANSWER(pthread_mutex_timedlock(&m, &past));
    ANSWER(pthread_mutex_unlock(&m));
  }
}
#endif

static void conditions(void) {
  pthread_condattr_t a;
  pthread_cond_t c;
  clockid_t clock;
  ANSWER(pthread_condattr_init(&a));
  ANSWER(pthread_condattr_setclock(&a, CLOCK_PROCESS_CPUTIME_ID));
  ANSWER(pthread_condattr_setclock(&a, 99));
  ANSWER(pthread_condattr_setclock(&a, CLOCK_MONOTONIC));
  ANSWER(pthread_condattr_getclock(&a, &clock));
  VALUE(clock);
  ANSWER(pthread_condattr_setpshared(&a, 9));
  ANSWER(pthread_cond_init(&c, &a));
  ANSWER(pthread_cond_signal(&c));
  ANSWER(pthread_cond_broadcast(&c));
#ifdef TRIES
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  ANSWER(pthread_mutex_lock(&m));
  ANSWER(pthread_cond_timedwait(&c, &m, &past));
  ANSWER(pthread_cond_timedwait(&c, &m, &bad));
  ANSWER(pthread_cond_timedwait(&c, &m, &negative));
  ANSWER(pthread_cond_clockwait(&c, &m, CLOCK_PROCESS_CPUTIME_ID, &past));
  ANSWER(pthread_cond_clockwait(&c, &m, CLOCK_REALTIME, &past));
  ANSWER(pthread_mutex_unlock(&m));
#endif
  ANSWER(pthread_cond_destroy(&c));
}

static void read_write_locks(void) {
  pthread_rwlockattr_t a;
  pthread_rwlock_t l;
  int number;
  ANSWER(pthread_rwlockattr_init(&a));
  ANSWER(pthread_rwlockattr_setkind_np(&a, 9));
  ANSWER(pthread_rwlockattr_setkind_np(&a, -1));
  ANSWER(pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
  ANSWER(pthread_rwlockattr_getkind_np(&a, &number));
  VALUE(number);
  ANSWER(pthread_rwlockattr_setpshared(&a, 9));
  ANSWER(pthread_rwlock_init(&l, &a));
  ANSWER(pthread_rwlock_wrlock(&l));
  ANSWER(pthread_rwlock_wrlock(&l));
  ANSWER(pthread_rwlock_rdlock(&l));
  ANSWER(pthread_rwlock_trywrlock(&l));
  ANSWER(pthread_rwlock_tryrdlock(&l));
  ANSWER(pthread_rwlock_timedwrlock(&l, &bad));
  ANSWER(pthread_rwlock_timedrdlock(&l, &bad));
  ANSWER(pthread_rwlock_timedwrlock(&l, &past));
  ANSWER(pthread_rwlock_timedrdlock(&l, &past));
  ANSWER(pthread_rwlock_clockrdlock(&l, CLOCK_PROCESS_CPUTIME_ID, &past));
  ANSWER(pthread_rwlock_clockwrlock(&l, CLOCK_PROCESS_CPUTIME_ID, &past));
  ANSWER(pthread_rwlock_unlock(&l));
  ANSWER(pthread_rwlock_rdlock(&l));
  ANSWER(pthread_rwlock_trywrlock(&l));
  ANSWER(pthread_rwlock_timedwrlock(&l, &past));
  ANSWER(pthread_rwlock_timedwrlock(&l, &bad));
  ANSWER(pthread_rwlock_timedwrlock(&l, &negative));
  ANSWER(pthread_rwlock_clockwrlock(&l, CLOCK_MONOTONIC, &past));
  ANSWER(pthread_rwlock_timedrdlock(&l, &bad));
  ANSWER(pthread_rwlock_unlock(&l));
  ANSWER(pthread_rwlock_destroy(&l));
}

static void barriers(void) {
  pthread_barrierattr_t a;
  pthread_barrier_t b;
  ANSWER(pthread_barrierattr_init(&a));
  ANSWER(pthread_barrierattr_setpshared(&a, 9));
  ANSWER(pthread_barrier_init(&b, 0, 0));
  ANSWER(pthread_barrier_init(&b, 0, UINT_MAX));
  ANSWER(pthread_barrier_init(&b, 0, UINT_MAX / 2 + 1));
  ANSWER(pthread_barrier_init(&b, &a, 1));
  ANSWER(pthread_barrier_wait(&b));
  ANSWER(pthread_barrier_destroy(&b));
}

static void semaphores(void) {
  sem_t s;
  int number;
  char long_name[300] = "/";
  RESULT(sem_init(&s, 0, (unsigned)SEM_VALUE_MAX + 1));
  RESULT(sem_init(&s, 0, SEM_VALUE_MAX));
  RESULT(sem_post(&s));
  RESULT(sem_init(&s, 0, 0));
  RESULT(sem_trywait(&s));
  RESULT(sem_timedwait(&s, &past));
  RESULT(sem_timedwait(&s, &bad));
  RESULT(sem_timedwait(&s, &negative));
  RESULT(sem_clockwait(&s, CLOCK_PROCESS_CPUTIME_ID, &past));
  RESULT(sem_clockwait(&s, CLOCK_MONOTONIC, &past));
  RESULT(sem_post(&s));
  RESULT(sem_timedwait(&s, &bad));
  RESULT(sem_post(&s));
  RESULT(sem_getvalue(&s, &number));
  VALUE(number);
  RESULT(sem_destroy(&s));
  memset(long_name + 1, 'a', sizeof long_name - 2);
  NONE(sem_open("/braid-answers-none", 0));
  NONE(sem_open("/", O_CREAT, 0600, 1));
  NONE(sem_open("/braid/answers", O_CREAT, 0600, 1));
  NONE(sem_open(long_name, O_CREAT, 0600, 1));
  NONE(sem_open("/braid-answers", O_CREAT, 0600, (unsigned)SEM_VALUE_MAX + 1));
  NONE(sem_open("/braid-answers", O_CREAT | O_EXCL, 0600, 1));
  NONE(sem_open("/braid-answers", O_CREAT | O_EXCL, 0600, 1));
  RESULT(sem_unlink("/braid-answers"));
  RESULT(sem_unlink("/braid-answers"));
  RESULT(sem_unlink("/braid/answers"));
  RESULT(sem_unlink(long_name));
}

static void keys(void) {
  static pthread_key_t key[PTHREAD_KEYS_MAX + 2];
  int count = 0, answer;
  while ((answer = pthread_key_create(&key[count], 0)) == 0 && count < PTHREAD_KEYS_MAX + 1) ++count;
  ANSWER(answer);
  VALUE(count >= PTHREAD_KEYS_MAX - 4 && count <= PTHREAD_KEYS_MAX);
  for (int i = 0; i < count; ++i)
    if (pthread_key_delete(key[i]) != 0) VALUE(i);
  ANSWER(pthread_key_delete(key[0]));
  ANSWER(pthread_key_delete(5000));
  ANSWER(pthread_setspecific(key[0], &count));
  ANSWER(pthread_setspecific(5000, &count));
  NONE(pthread_getspecific(key[0]));
  NONE(pthread_getspecific(5000));
}

static void spin_locks(void) {
  pthread_spinlock_t s;
  ANSWER(pthread_spin_init(&s, PTHREAD_PROCESS_PRIVATE));
  ANSWER(pthread_spin_lock(&s));
  ANSWER(pthread_spin_trylock(&s));
  ANSWER(pthread_spin_unlock(&s));
  ANSWER(pthread_spin_destroy(&s));
}

static void signals_and_cancellation(void) {
  int old;
  ANSWER(pthread_kill(pthread_self(), 0));
  ANSWER(pthread_kill(pthread_self(), -1));
  ANSWER(pthread_kill(pthread_self(), 65));
  ANSWER(pthread_sigmask(99, &(sigset_t){0}, 0));
  ANSWER(pthread_setcancelstate(9, &old));
  ANSWER(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
  VALUE(old);
  ANSWER(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0));
  ANSWER(pthread_setcanceltype(9, &old));
  ANSWER(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old));
  VALUE(old);
  ANSWER(pthread_setconcurrency(-1));
  ANSWER(pthread_setconcurrency(3));
  VALUE(pthread_getconcurrency());
  ANSWER(pthread_setconcurrency(0));
}

static void names(void) {
  char name[16], short_name[8];
  ANSWER(pthread_getname_np(pthread_self(), name, sizeof name));
  printf("%s: %s\n", who, name);
  ANSWER(pthread_setname_np(pthread_self(), "sixteen letters!"));
  ANSWER(pthread_setname_np(pthread_self(), "fifteen letters"));
  ANSWER(pthread_getname_np(pthread_self(), name, sizeof name));
  printf("%s: %s\n", who, name);
  ANSWER(pthread_setname_np(pthread_self(), "a"));
  ANSWER(pthread_getname_np(pthread_self(), short_name, sizeof short_name));
}

static void clocks(void) {
  struct timespec t;
  struct sched_param priority = {0};
  int policy = -1;
  RESULT(nanosleep(&bad, 0));
  RESULT(nanosleep(&negative, 0));
  RESULT(nanosleep(&before_all, 0));
  ANSWER(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, 0));
  ANSWER(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &past, 0));
  ANSWER(clock_nanosleep(99, 0, &past, 0));
  ANSWER(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, 0));
  RESULT(clock_gettime(99, &t));
  RESULT(usleep(0));
  RESULT(sched_yield());
  ANSWER(pthread_getschedparam(pthread_self(), &policy, &priority));
  VALUE(policy);
  VALUE(priority.sched_priority);
  ANSWER(pthread_setschedparam(pthread_self(), SCHED_OTHER, &priority));
  priority.sched_priority = 100;
  ANSWER(pthread_setschedparam(pthread_self(), SCHED_OTHER, &priority));
  ANSWER(pthread_setschedparam(pthread_self(), 99, &priority));
  ANSWER(pthread_setschedprio(pthread_self(), 100));
}

static void memory(void) {
  void* block = 0;
  volatile size_t much = (size_t)PTRDIFF_MAX + 1, half = SIZE_MAX / 2;
  NONE(malloc(much));
  NONE(malloc(SIZE_MAX - 16 + (much & 1)));
  NONE(calloc(half, 3));
  NONE(realloc(0, much));
  NONE(reallocarray(0, half, 3));
  NONE(realloc(malloc(10), 0));
  ANSWER(posix_memalign(&block, 3, 10));
  ANSWER(posix_memalign(&block, 4, 10));
  ANSWER(posix_memalign(&block, 24, 10));
  ANSWER(posix_memalign(&block, 0, 10));
  ANSWER(posix_memalign(&block, 64, much));
  NONE(memalign(64, much));
  NONE(aligned_alloc(64, much));
  VALUE(malloc_usable_size(0));
  NONE(mmap(0, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  NONE(mmap(0, 4096, PROT_READ, MAP_PRIVATE, -1, 0));
  NONE(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 700, 0));
  NONE(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0));
  NONE(mmap(0, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  block = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RESULT(munmap((char*)block + 1, 4096));
  RESULT(munmap(block, 0));
  RESULT(munmap(block, 8192));
}

static void* end_with(void* p) {
  return p;
}
static void* wait_for(void* p) {
  sem_wait(p);
  return p;
}

/* With threads. */
static void threads_that_end(void) {
  pthread_t thread;
  pthread_attr_t a;
  void* result;
  sem_t end;
  sem_init(&end, 0, 0);
  ANSWER(pthread_join(pthread_self(), 0));
  ANSWER(pthread_tryjoin_np(pthread_self(), 0));
  ANSWER(pthread_timedjoin_np(pthread_self(), 0, &past));
  ANSWER(pthread_create(&thread, 0, wait_for, &end));
  ANSWER(pthread_tryjoin_np(thread, &result));
  ANSWER(pthread_timedjoin_np(thread, &result, &past));
  ANSWER(pthread_clockjoin_np(thread, &result, CLOCK_PROCESS_CPUTIME_ID, &past));
  ANSWER(pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &past));
  ANSWER(pthread_kill(thread, 65));
  ANSWER(pthread_detach(thread));
  ANSWER(pthread_detach(thread));
  ANSWER(pthread_join(thread, &result));
  ANSWER(pthread_tryjoin_np(thread, &result));
  sem_post(&end);
  ANSWER(pthread_create(&thread, 0, end_with, &end));
  ANSWER(pthread_join(thread, &result));
  VALUE(result == &end);
  pthread_attr_init(&a);
  ANSWER(pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN));
  ANSWER(pthread_create(&thread, &a, end_with, &end));
  ANSWER(pthread_join(thread, &result));
  pthread_attr_destroy(&a);
}

static void all_calls(const char* caller) {
  who = caller;
  attributes();
  mutex_attributes();
  mutexes();
  conditions();
  read_write_locks();
  barriers();
  semaphores();
  keys();
  spin_locks();
  signals_and_cancellation();
  names();
  clocks();
  memory();
}

static void* in_thread(void* unused) {
  all_calls("thread");
#ifdef TRIES
  tries();
#endif
  threads_that_end();
  fflush(stdout);
  return unused;
}

/* What a thread is told of itself; `p`: the stack that it asked for. */
static void* describe(void* p) {
  pthread_attr_t a;
  size_t asked = *(size_t*)p, bytes;
  void* low;
  int number;
  ANSWER(pthread_getattr_np(pthread_self(), &a));
  ANSWER(pthread_attr_getstack(&a, &low, &bytes));
  VALUE(asked);
  /* The C library may give it a larger one that it has. */
  VALUE(bytes + 8192 > asked);
  VALUE((char*)&a > (char*)low && (char*)&a < (char*)low + bytes);
  ANSWER(pthread_attr_getstacksize(&a, &bytes));
  VALUE(bytes + 8192 > asked);
  ANSWER(pthread_attr_getdetachstate(&a, &number));
  VALUE(number);
  ANSWER(pthread_attr_destroy(&a));
  fflush(stdout);
  return 0;
}

static void stacks(void) {
  static size_t sizes[] = {64 << 10, 1 << 20, 2 << 20, 8 << 20, 9 << 20, 3 << 20};
  pthread_attr_t a;
  pthread_t thread;
  who = "stacks";
  for (int i = 0; i < 6; ++i) {
    pthread_attr_init(&a);
    if (i == 5) ANSWER(pthread_attr_setdetachstate(&a, PTHREAD_CREATE_JOINABLE));
    ANSWER(pthread_attr_setstacksize(&a, sizes[i]));
    fflush(stdout);
    ANSWER(pthread_create(&thread, &a, describe, &sizes[i]));
    ANSWER(pthread_join(thread, 0));
    pthread_attr_destroy(&a);
  }
}

/* What threads have, that ask for these stacks or for none; in KiB. */
static void* tell_size(void* unused) {
  pthread_attr_t a;
  size_t bytes;
  pthread_getattr_np(pthread_self(), &a);
  pthread_attr_getstacksize(&a, &bytes);
  pthread_attr_destroy(&a);
  printf("%zu\n", bytes / 1024);
  fflush(stdout);
  return unused;
}

static void sizes(void) {
  static const size_t asked[] = {64 << 10, 0, 1 << 20, 8 << 20};
  pthread_attr_t a, before;
  pthread_t thread;
  tell_size(0);
  pthread_attr_init(&before);
  for (int i = 0; i < 9; ++i) {
    pthread_attr_init(&a);
    if (i == 4) pthread_attr_setstacksize(&a, 2 << 20), pthread_setattr_default_np(&a);
    if (i % 5 < 4 && asked[i % 5] != 0) pthread_attr_setstacksize(&a, asked[i % 5]);
    pthread_create(&thread, i == 4 ? 0 : i == 8 ? &before : &a, tell_size, 0);
    pthread_join(thread, 0);
  }
}

int main(int count, char** words) {
  pthread_t thread;
  (void)words;
  if (count > 1) return sizes(), 0;
  all_calls("main() alone");
  fflush(stdout);
  pthread_create(&thread, 0, in_thread, 0);
  pthread_join(thread, 0);
  all_calls("main()");
  threads_that_end();
  stacks();
  return 0;
}
