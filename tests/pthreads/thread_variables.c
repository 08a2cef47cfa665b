// Threads give others the addresses of their thread-local variables: a lock whose queue is of these, and sums that others add to.
// Functions within functions, whose code is on the stack.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { kThreads = 4, kRounds = 100 };

struct place {
  _Atomic(struct place*) next;
  atomic_int waits;
};
static _Thread_local struct place mine;
static _Atomic(struct place*) last;

static void lock(void) {
  atomic_store(&mine.next, NULL);
  struct place* const before = atomic_exchange(&last, &mine);
  if (before == NULL) return;
  atomic_store(&mine.waits, 1);
  atomic_store(&before->next, &mine);
  while (atomic_load(&mine.waits)) {
  }
}
static void unlock(void) {
  struct place* expected = &mine;
  if (atomic_load(&mine.next) == NULL && atomic_compare_exchange_strong(&last, &expected, NULL)) return;
  struct place* next;
  while ((next = atomic_load(&mine.next)) == NULL) {
  }
  atomic_store(&next->waits, 0);
}

static _Thread_local long first = 5;
static _Thread_local _Alignas(128) long sums[4];
static long* all_sums[kThreads];
static long* of_main;
static pthread_barrier_t barrier;
long
    count;  // not static: GCC 12 takes a function of atomics alone for one that orders nothing else of its file
static long wrong;

static int order(int* values, int sign) {
  int compare(const void* a, const void* b) {
    return sign * (*(const int*)a - *(const int*)b);
  }
  qsort(values, 5, sizeof *values, compare);
  return values[0];
}

static void* run(void* argument) {
  const long self = (long)argument;
  all_sums[self] = sums;
  if (first != 5 || sums[0] != 0 || (unsigned long)sums % 128 != 0) ++wrong;
  first += self;
  for (int i = 0; i < kRounds; ++i) {
    lock();
    ++count;
    unlock();
  }
  pthread_barrier_wait(&barrier);
  all_sums[(self + 1) % kThreads][self % 4] += self + 1;
  lock();
  *of_main += self;
  unlock();
  pthread_barrier_wait(&barrier);
  const long before = (self + kThreads - 1) % kThreads;
  if (sums[before % 4] != before + 1 || first != 5 + self) ++wrong;
  int values[5] = {3, 1, 4, 1, 5};
  return (void*)(long)(sums[before % 4] * 10 + order(values, self % 2 ? 1 : -1));
}

int main(void) {
  first = 7;
  of_main = &first;
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (int again = 0; again < 2; ++again) {
    pthread_t threads[kThreads];
    for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, run, (void*)i);
    for (int i = 0; i < kThreads; ++i) {
      void* result;
      pthread_join(threads[i], &result);
      printf("%ld\n", (long)result);
    }
  }
  printf("%ld %ld, %ld wrong\n", count, first, wrong);
  return 0;
}
