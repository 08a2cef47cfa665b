/* Mutexes and condition variables in any number and anywhere: global arrays, allocated memory that is freed and used again,
 * stacks, thread-local memory. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) ((what) ? (void)0 : (void)(++*wrong, fprintf(stderr, "line %d: %s\n", __LINE__, #what)))

enum { kThreads = 4, kMutexes = 6000, kAtOnce = 600, kConditions = 5000, kTurns = 40 };

static pthread_mutex_t mutexes[kMutexes]; /* zeros: as the static initialiser */
static pthread_cond_t conditions[kConditions];
static int counts[kMutexes], whose[kConditions];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local pthread_mutex_t of_thread;

struct cell { /* in allocated memory */
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int value;
};
struct arguments {
  struct cell** cell;
  int id, wrong;
};

/* All of a part at once, whose order is that of their places. */
static void lock_many(int first, int* wrong) {
  for (int i = first; i < first + kAtOnce; ++i) CHECK(pthread_mutex_lock(&mutexes[i]) == 0);
  for (int i = first; i < first + kAtOnce; ++i) ++counts[i];
  CHECK(pthread_mutex_destroy(&mutexes[first]) == EBUSY);
  for (int i = first; i < first + kAtOnce; ++i) CHECK(pthread_mutex_unlock(&mutexes[i]) == 0);
}

/* Each thread's turn comes with a condition of its own, far from the others. */
static void take_turns(int id, int* wrong) {
  for (int i = 0; i < kTurns; ++i) {
    pthread_cond_t* const mine = &conditions[(kThreads * i + id) * (kConditions / (kThreads * kTurns))];
    pthread_mutex_lock(&turn);
    while (whose[i] != id) CHECK(pthread_cond_wait(mine, &turn) == 0);
    ++whose[i];
    if (id + 1 < kThreads) CHECK(pthread_cond_signal(mine + kConditions / (kThreads * kTurns)) == 0);
    pthread_mutex_unlock(&turn);
  }
}

static void use_again(int* wrong) {
  for (int i = 0; i < 50; ++i) {
    pthread_mutex_t* const mutex = malloc(sizeof *mutex);
    memset(mutex, 0xff, sizeof *mutex);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, i % 2 == 0 ? PTHREAD_MUTEX_ERRORCHECK : PTHREAD_MUTEX_RECURSIVE);
    CHECK(pthread_mutex_init(mutex, &attributes) == 0 && pthread_mutex_lock(mutex) == 0);
    CHECK(pthread_mutex_lock(mutex) == (i % 2 == 0 ? EDEADLK : 0));
    if (i % 2 != 0) CHECK(pthread_mutex_unlock(mutex) == 0);
    CHECK(pthread_mutex_unlock(mutex) == 0 && pthread_mutex_unlock(mutex) == EPERM);
    CHECK(pthread_mutex_destroy(mutex) == 0 && pthread_mutex_init(mutex, NULL) == 0);
    CHECK(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
    CHECK(pthread_mutex_destroy(mutex) == 0);
    pthread_mutexattr_destroy(&attributes);
    free(mutex);
  }
}

static void* run(void* argument) {
  struct arguments* const a = argument;
  int* const wrong = &a->wrong;
  for (int i = 0; i < 3; ++i) lock_many((a->id + i) * 1000, wrong);
  take_turns(a->id, wrong);
  use_again(wrong);
  CHECK(pthread_mutex_lock(&of_thread) == 0 && pthread_mutex_unlock(&of_thread) == 0);
  struct cell* const cell = *a->cell;
  pthread_mutex_lock(&cell->mutex);
  if (++cell->value == kThreads)
    pthread_cond_broadcast(&cell->condition);
  else
    while (cell->value < kThreads) pthread_cond_wait(&cell->condition, &cell->mutex);
  pthread_mutex_unlock(&cell->mutex);
  return NULL;
}

int main(void) {
  int bad = 0, *const wrong = &bad;
  struct cell* cell = NULL;
  pthread_t names[kThreads];
  struct arguments arguments[kThreads];
  for (int wave = 0; wave < 2; ++wave) {
    memset(whose, 0, sizeof whose);
    free(cell); /* the second wave has most probably the same memory */
    cell = malloc(sizeof *cell);
    cell->value = 0;
    pthread_mutex_init(&cell->mutex, NULL);
    pthread_cond_init(&cell->condition, NULL);
    for (int i = 0; i < kThreads; ++i) {
      arguments[i] = (struct arguments){&cell, i, 0};
      CHECK(pthread_create(&names[i], NULL, run, &arguments[i]) == 0);
    }
    for (int i = 0; i < kThreads; ++i) {
      CHECK(pthread_join(names[i], NULL) == 0);
      *wrong += arguments[i].wrong;
    }
    CHECK(pthread_cond_destroy(&cell->condition) == 0 && pthread_mutex_destroy(&cell->mutex) == 0);
  }
  long sum = 0;
  for (int i = 0; i < kMutexes; ++i) sum += counts[i];
  CHECK(sum == 2L * kThreads * 3 * kAtOnce && counts[2000] == 6 && counts[0] == 2);
  free(cell);
  printf("objects: %d wrong\n", bad);
  return bad != 0;
}
