/* What threads see with a volatile variable of another cluster: what its writer wrote before, in other pages. Without the care
   that is taken in dsm/pthreads/atomics.cpp each part goes wrong on some simulated machine. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define PAGE __attribute__((aligned(4096)))
#define THREADS 4
#define ROUNDS 30

static int wrong PAGE;

/* A spin lock that is freed by a plain write. */
static volatile int lock PAGE;
static int count PAGE;

static void* counts(void* argument) {
  for (int i = 0; i < ROUNDS; ++i) {
    while (__sync_lock_test_and_set(&lock, 1))
      while (lock) {
      }
    ++count;
    lock = 0;
  }
  return argument;
}

/* One thread tells another by a number, and by bits, that it has written to another page. Two more write to the page of both. */
static struct {
  volatile int number, unused[63];
  volatile unsigned bits : 31;
  volatile int noise[2], end[60];
} told PAGE;
static int word PAGE;
static volatile int answer PAGE, stop PAGE;

static void* tells(void* argument) {
  for (int i = 1; i <= ROUNDS; ++i) {
    word = i;
    if (i % 2 == 0)
      told.number = i;
    else
      told.bits = (unsigned)i;
    while (answer != i) {
    }
  }
  stop = 1;
  return argument;
}

static void* is_told(void* argument) {
  for (int i = 1; i <= ROUNDS; ++i) {
    while (i % 2 == 0 ? told.number != i : told.bits != (unsigned)i) {
    }
    wrong += word != i;
    answer = i;
  }
  return argument;
}

static void* disturbs(void* argument) {
  for (int i = 0; !stop; ++i) told.noise[(long)argument] = i;
  return NULL;
}

/* As many reads of its own variable as of the one that it waits for: this one first, or the other. */
static volatile int go PAGE, turns[2][1024] PAGE;

static void* counts_turns(void* argument) {
  const long own = (long)argument;
  if (own == 1) turns[own][0] = turns[own][0] + 1;
  while (!go) turns[own][0] = turns[own][0] + 1;
  return NULL;
}

/* Every kind of number. */
static struct {
  volatile signed char byte;
  volatile short half;
  volatile _Bool yes;
  volatile long long whole;
  volatile float single;
  volatile double twice;
  int* volatile address;
} numbers PAGE;

static void* writes_numbers(void* argument) {
  numbers.byte = -3;
  numbers.half = -30000;
  numbers.yes = 1;
  numbers.whole = -(1ll << 40);
  numbers.single = 0.5f;
  numbers.twice = -0.1;
  numbers.address = &count;
  return argument;
}

static void run(int threads, void* (*const functions[])(void*), const long arguments[]) {
  pthread_t all[THREADS];
  for (int i = 0; i < threads; ++i) pthread_create(&all[i], NULL, functions[i], (void*)arguments[i]);
  if (functions[0] == counts_turns) {
    usleep(50000);
    go = 1;
  }
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
}

int main(void) {
  const long arguments[THREADS] = {0, 1, 0, 1};
  run(3, (void* (*[])(void*)){counts_turns, counts_turns, writes_numbers}, arguments);
  run(4, (void* (*[])(void*)){counts, counts, counts, counts}, arguments);
  run(4, (void* (*[])(void*)){tells, is_told, disturbs, disturbs}, arguments);
  wrong += numbers.byte != -3 || numbers.half != -30000 || !numbers.yes || numbers.whole != -(1ll << 40) ||
           numbers.single != 0.5f || numbers.twice != -0.1 || numbers.address != &count;
  printf("flags: %d counted, %d wrong\n", count, wrong);
  return 0;
}
