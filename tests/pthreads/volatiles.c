/* Threads that wait for each other by volatile variables: a flag, a spin lock that is freed by a plain write, a barrier that
   reverses its sense, and work until it is told to stop. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 6

static volatile int flag, lock, stop, begun;
static int data, count, wrong;
static int part[THREADS];
static struct {
  volatile unsigned sense : 1;
  volatile int count;
} place;
static __thread unsigned own_sense;

static void barrier(void) {
  own_sense = !own_sense;
  if (__sync_add_and_fetch(&place.count, 1) == THREADS) {
    place.count = 0;
    place.sense = own_sense;
  } else {
    while (place.sense != own_sense) {
    }
  }
}

static void acquire(void) {
  while (__sync_lock_test_and_set(&lock, 1))
    while (lock) {
    }
}

static void* work(void* argument) {
  const int own = (int)(long)argument;
  if (own == 0) {
    data = 42;
    flag = 1;
  } else {
    while (!flag) {
    }
  }
  const int seen = data;
  for (int round = 0; round < ROUNDS; ++round) {
    part[own] = round + own;
    barrier();
    int sum = 0;
    for (int i = 0; i < THREADS; ++i) sum += part[i];
    barrier();
    acquire();
    count += 1;
    wrong += seen != 42 || sum != THREADS * round + 6;
    lock = 0;
  }
  return NULL;
}

static void* until_told(void* argument) {
  begun = 1;
  while (!stop) sched_yield();
  return argument;
}

int main(void) {
  pthread_t threads[THREADS], last;
  for (long i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  pthread_create(&last, NULL, until_told, NULL);
  while (!begun) {
  }
  stop = 1;
  pthread_join(last, NULL);
  printf("volatiles: %d counted, %d wrong\n", count, wrong);
  return 0;
}
