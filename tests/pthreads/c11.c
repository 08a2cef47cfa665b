/* Every call of <threads.h>. */
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#define CHECK(what)                                              \
  do {                                                           \
    if (!(what)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what); \
      mtx_lock(&mutex);                                          \
      ++wrong;                                                   \
      mtx_unlock(&mutex);                                        \
    }                                                            \
  } while (0)

enum { kThreads = 3, kRounds = 200 };

static mtx_t mutex, recursive, timed;
static cnd_t changed;
static once_flag once = ONCE_FLAG_INIT;
static tss_t key;
static int wrong, made, count, turn, ready, destroyed;

static void make(void) {
  ++made;
}

static void destroy(void* value) {
  mtx_lock(&mutex);
  destroyed += *(int*)value;
  mtx_unlock(&mutex);
  free(value);
}

static struct timespec in_ms(long ms) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  t.tv_nsec += ms * 1000000;
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

/* In turn, one after the other. */
static int work(void* argument) {
  const int number = *(int*)argument;
  call_once(&once, make);
  int* const own = malloc(sizeof *own);
  *own = number;
  CHECK(tss_get(key) == NULL && tss_set(key, own) == thrd_success && tss_get(key) == own);
  for (int i = 0; i < kRounds; ++i) {
    CHECK(mtx_lock(&mutex) == thrd_success);
    while (turn != number) cnd_wait(&changed, &mutex);
    turn = (turn + 1) % kThreads;
    ++count;
    cnd_broadcast(&changed);
    CHECK(mtx_unlock(&mutex) == thrd_success);
    if (i % 50 == 0) thrd_yield();
  }
  const struct timespec soon = in_ms(20), late = in_ms(20000);
  CHECK(mtx_trylock(&timed) == thrd_busy && mtx_timedlock(&timed, &soon) == thrd_timedout);
  CHECK(mtx_lock(&recursive) == thrd_success && mtx_trylock(&recursive) == thrd_success);
  CHECK(mtx_unlock(&recursive) == thrd_success && mtx_unlock(&recursive) == thrd_success);
  mtx_lock(&mutex);
  ++ready;
  cnd_broadcast(&changed);
  mtx_unlock(&mutex);
  CHECK(mtx_timedlock(&timed, &late) == thrd_success && mtx_unlock(&timed) == thrd_success);
  if (number == 1) thrd_exit(-number);
  return -number;
}

static int detached(void* argument) {
  mtx_lock(&mutex);
  *(thrd_t*)argument = thrd_current();
  ++ready;
  cnd_signal(&changed);
  mtx_unlock(&mutex);
  return 0;
}

int main(void) {
  thrd_t names[kThreads], seen = 0;
  int numbers[kThreads];
  CHECK(mtx_init(&mutex, mtx_plain) == thrd_success && mtx_init(&timed, mtx_timed) == thrd_success);
  CHECK(mtx_init(&recursive, mtx_recursive | mtx_timed) == thrd_success &&
        mtx_init(&recursive, mtx_recursive) == thrd_success);
  CHECK(cnd_init(&changed) == thrd_success && tss_create(&key, destroy) == thrd_success);
  mtx_lock(&timed);
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i;
    CHECK(thrd_create(&names[i], work, &numbers[i]) == thrd_success);
  }
  CHECK(!thrd_equal(names[0], names[1]) && !thrd_equal(names[0], thrd_current()));
  /* All have seen that the mutex is locked. */
  mtx_lock(&mutex);
  while (ready < kThreads) {
    const struct timespec soon = in_ms(50);
    const int result = cnd_timedwait(&changed, &mutex, &soon);
    if (result != thrd_success && result != thrd_timedout) ++wrong;
  }
  ready = 0;
  mtx_unlock(&mutex);
  mtx_unlock(&timed);
  for (int i = 0; i < kThreads; ++i) {
    int result = 1;
    CHECK(thrd_join(names[i], &result) == thrd_success && result == -i);
  }
  CHECK(thrd_create(&names[0], detached, &seen) == thrd_success && thrd_detach(names[0]) == thrd_success);
  mtx_lock(&mutex);
  while (ready == 0) cnd_wait(&changed, &mutex);
  mtx_unlock(&mutex);
  CHECK(thrd_equal(seen, names[0]));
  CHECK(thrd_sleep(&(struct timespec){.tv_nsec = 1000000}, NULL) == 0);
  CHECK(made == 1 && count == kThreads * kRounds && destroyed == 3);
  tss_delete(key);
  cnd_destroy(&changed);
  mtx_destroy(&recursive);
  mtx_destroy(&timed);
  printf("c11: %d wrong\n", wrong);
  return wrong != 0;
}
