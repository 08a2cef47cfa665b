/* Calls that do not wait, or not for ever. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(what) \
  ((what) ? 0 : (fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what), atomic_fetch_add(&wrong, 1)))

static atomic_int wrong;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static int state, tickets;
static atomic_long counter;
static long plain_counter;
static atomic_flag flag = ATOMIC_FLAG_INIT;

static struct timespec in_ms(long ms, clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  t.tv_nsec += ms * 1000000;
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

static void set_state(int to) {
  pthread_mutex_lock(&mutex);
  state = to;
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
}
static void await_state(int wanted) {
  pthread_mutex_lock(&mutex);
  while (state != wanted) pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}

/* main() has all locks while state is 1, and none while it is 2. */
static void* other(void* unused) {
  (void)unused;
  await_state(1);
  const struct timespec soon = in_ms(20, CLOCK_REALTIME);
  CHECK(pthread_mutex_trylock(&recursive) == EBUSY);
  CHECK(pthread_mutex_timedlock(&recursive, &soon) == ETIMEDOUT);
  const struct timespec no_time = {.tv_nsec = 1000000000};
  CHECK(pthread_mutex_timedlock(&recursive, &no_time) == EINVAL);
  CHECK(pthread_mutex_clocklock(&recursive, CLOCK_PROCESS_CPUTIME_ID, &soon) == EINVAL);
  CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY && pthread_rwlock_trywrlock(&lock) == EBUSY);
  CHECK(pthread_rwlock_timedrdlock(&lock, &soon) == ETIMEDOUT &&
        pthread_rwlock_timedwrlock(&lock, &soon) == ETIMEDOUT);
  CHECK(sem_trywait(&semaphore) == -1 && errno == EAGAIN);
  CHECK(pthread_rwlock_timedrdlock(&lock, &no_time) == EINVAL);
  CHECK(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT);
  CHECK(sem_timedwait(&semaphore, &no_time) == -1 && errno == EINVAL);
  set_state(2);
  await_state(3);
  const struct timespec late = in_ms(20000, CLOCK_REALTIME);
  CHECK(pthread_mutex_trylock(&recursive) == 0 && pthread_mutex_trylock(&recursive) == 0);
  CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
  CHECK(pthread_mutex_unlock(&recursive) == EPERM);
  CHECK(pthread_mutex_timedlock(&recursive, &late) == 0 && pthread_mutex_unlock(&recursive) == 0);
  CHECK(pthread_rwlock_tryrdlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == 0);
  CHECK(pthread_rwlock_timedwrlock(&lock, &late) == 0 && pthread_rwlock_unlock(&lock) == 0);
  int value = 0;
  CHECK(sem_timedwait(&semaphore, &late) == 0 && sem_trywait(&semaphore) == 0 &&
        sem_getvalue(&semaphore, &value) == 0);
  CHECK(value == 0);
  return NULL;
}

/* Three wait with a limit, and each signal lets one go. */
static void* wait_for_ticket(void* unused) {
  (void)unused;
  const struct timespec late = in_ms(20000, CLOCK_REALTIME);
  pthread_mutex_lock(&mutex);
  while (tickets == 0) CHECK(pthread_cond_timedwait(&condition, &mutex, &late) == 0);
  --tickets;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

/* A lock whose readers let writers go first: one that waits keeps readers out, until it gives up. */
static pthread_rwlock_t polite = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, made_polite;
static int written;

static void* write_it(void* argument) {
  pthread_rwlock_wrlock(argument);
  ++written;
  pthread_rwlock_unlock(argument);
  return NULL;
}
static void* give_up(void* argument) {
  const struct timespec soon = in_ms(200, CLOCK_REALTIME);
  CHECK(pthread_rwlock_timedwrlock(argument, &soon) == ETIMEDOUT);
  return NULL;
}
static void await_writer(pthread_rwlock_t* held) {
  while (pthread_rwlock_tryrdlock(held) == 0) {
    pthread_rwlock_unlock(held);
    sched_yield();
  }
}
static void let_writers_first(pthread_rwlock_t* held) {
  pthread_t name;
  pthread_rwlock_rdlock(held);
  pthread_create(&name, NULL, give_up, held);
  await_writer(held);
  CHECK(pthread_rwlock_rdlock(held) == 0 && pthread_rwlock_unlock(held) == 0);
  pthread_join(name, NULL);
  pthread_create(&name, NULL, write_it, held);
  await_writer(held);
  const struct timespec soon = in_ms(20, CLOCK_REALTIME);
  CHECK(pthread_rwlock_timedrdlock(held, &soon) == ETIMEDOUT);
  const int before = written;
  CHECK(pthread_rwlock_unlock(held) == 0 && pthread_rwlock_rdlock(held) == 0);
  CHECK(written == before + 1 && pthread_rwlock_unlock(held) == 0);
  pthread_join(name, NULL);
}

static void* count(void* argument) {
  for (int i = 0; i < 200; ++i) {
    atomic_fetch_add(&counter, 1);
    __sync_fetch_and_add((long*)argument, 2);
    long seen = atomic_load(&counter);
    while (!atomic_compare_exchange_weak(&counter, &seen, seen + 1)) continue;
    while (atomic_flag_test_and_set(&flag)) continue;
    ++plain_counter;
    atomic_flag_clear(&flag);
  }
  return NULL;
}

int main(void) {
  pthread_t names[4];
  struct timespec soon = in_ms(10, CLOCK_REALTIME);
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT);
  CHECK(pthread_cond_timedwait(&condition, &mutex, &(struct timespec){.tv_nsec = -1}) == EINVAL);
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_BOOTTIME, &soon) == EINVAL);
  pthread_mutex_unlock(&mutex);
  sem_init(&semaphore, 0, 0);
  pthread_create(&names[0], NULL, other, NULL);
  CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_rwlock_wrlock(&lock) == 0);
  set_state(1);
  await_state(2);
  CHECK(pthread_timedjoin_np(names[0], NULL, &soon) == ETIMEDOUT);
  CHECK(pthread_clockjoin_np(names[0], NULL, CLOCK_BOOTTIME, &soon) == EINVAL);
  CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_rwlock_unlock(&lock) == 0);
  sem_post(&semaphore);
  sem_post(&semaphore);
  set_state(3);
  void* result = &counter;
  const struct timespec late = in_ms(20000, CLOCK_REALTIME);
  CHECK(pthread_timedjoin_np(names[0], &result, &late) == 0 && result == NULL);

  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_t monotonic;
  pthread_cond_init(&monotonic, &attributes);
  soon = in_ms(10, CLOCK_MONOTONIC);
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_timedwait(&monotonic, &mutex, &soon) == ETIMEDOUT);
  pthread_mutex_unlock(&mutex);
  /* Limits are of two clocks. */
  CHECK(pthread_cond_clockwait(&monotonic, &mutex, CLOCK_BOOTTIME, &soon) == EINVAL);
  CHECK(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &soon) == EINVAL);
  for (int i = 0; i < 3; ++i) pthread_create(&names[i], NULL, wait_for_ticket, NULL);
  for (int i = 0; i < 3; ++i) {
    pthread_mutex_lock(&mutex);
    ++tickets;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
  }
  for (int i = 0; i < 3; ++i) pthread_join(names[i], NULL);
  CHECK(tickets == 0);

  pthread_rwlockattr_t polite_ones;
  pthread_rwlockattr_init(&polite_ones);
  pthread_rwlockattr_setkind_np(&polite_ones, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&made_polite, &polite_ones);
  let_writers_first(&polite);
  let_writers_first(&made_polite);

  long* const words = calloc(1, sizeof *words);
  for (int i = 0; i < 4; ++i) pthread_create(&names[i], NULL, count, words);
  for (int i = 0; i < 4; ++i) pthread_join(names[i], NULL);
  CHECK(atomic_load(&counter) == 1600 && *words == 1600 && plain_counter == 800);
  printf("tries: %d wrong\n", atomic_load(&wrong));
  return wrong != 0;
}
