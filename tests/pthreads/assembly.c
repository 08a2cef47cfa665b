/* Atomic instructions of inline assembly: counters, a compare and swap, a spin lock; threads that take turns by instructions that only
   move; and with an argument handlers of a timer's signals that use the same words. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

enum { kThreads = 4, kRounds = 200 };

static unsigned added, swapped, named, by_handlers, table[4];
static unsigned long long quad;
static volatile int lock;
static int with_lock;
static int last[kThreads * kRounds], wrong;

static unsigned add(unsigned* number) {
  unsigned was = 1;
  __asm__ __volatile__("lock; xaddl %0, %1" : "+r"(was), "+m"(*number) : : "memory");
  return was;
}
/* The compiler is not told that it writes. */
static unsigned add_behind(unsigned* number) {
  unsigned was;
  __asm__ __volatile__("movl $1, %0\n\tlock xaddl %0, 0x8(%1)" : "=&a"(was) : "r"(number));
  return was;
}
static void increase(unsigned* number) {
  __asm__("LOCK incl %[number]" : [number] "+m"(*number));
}
static void add_three(unsigned long long* number) {
  void* at = (char*)number - 16;
  __asm__ __volatile__("1: lock\n\taddq %1, 16(%q0)\n\tjnz 2f\n\tnop\n2:"
                       : "+r"(at)
                       : "er"(3L)
                       : "cc", "memory");
}
static int swap(unsigned* number, unsigned from, unsigned to) {
  char done;
  __asm__ __volatile__("lock\n\tcmpxchgl %3, %1\n\tsete %b0"
                       : "=q"(done), "+m"(*number), "+a"(from)
                       : "r"(to)
                       : "memory", "cc");
  return done;
}
static int exchange(volatile int* word, int value) {
  __asm__ __volatile__("xchgl %0, %1" : "=r"(value), "=m"(*word) : "0"(value) : "memory");
  return value;
}
/* The operand may be in memory. */
static int exchange_anywhere(volatile int* word, int value) {
  int was;
  __asm__ __volatile__("xchg%z0 %2, %0" : "=g"(*word), "=r"(was) : "1"(value) : "memory");
  return was;
}

static unsigned load(const unsigned* word) {
  unsigned is;
  __asm__ __volatile__("movl %1, %0" : "=r"(is) : "m"(*word) : "memory");
  return is;
}
static void store(unsigned* word, unsigned is) {
  __asm__ __volatile__("movl %1, (%0)" : : "r"(word), "ir"(is) : "memory");
}
static unsigned turn, stop;
static int turns;
static void* take_turns(void* argument) {
  const unsigned own = (unsigned)(long)argument;
  for (int i = 0; i < 20; ++i) {
    while (load(&turn) % kThreads != own) {
    }
    ++turns;
    store(&turn, load(&turn) + 1);
  }
  while (load(&stop) == 0) {
  }
  return 0;
}

static void* work(void* argument) {
  unsigned own = 0;
  for (int i = 0; i < kRounds; ++i) {
    ++last[add(&added)];
    add_behind(table + 1);
    for (unsigned was; was = *(volatile unsigned*)&swapped, !swap(&swapped, was, was + 1);) sched_yield();
    increase(&named);
    increase(&own);
    add_three(&quad);
    while (exchange_anywhere(&lock, 1)) sched_yield();
    ++with_lock;
    exchange(&lock, 0);
  }
  if (own != kRounds) __sync_add_and_fetch(&wrong, 1);
  return argument;
}

static void on_alarm(int number) {
  (void)number;
  increase(&named);
  increase(&by_handlers);
}
/* Until enough handlers have run. */
static void* count(void* argument) {
  unsigned* const counted = argument;
  for (*counted = 0; *counted < 20000 || *(volatile unsigned*)&by_handlers < 10; ++*counted) increase(&named);
  return 0;
}
static void alarm_each(int us) {
  const struct itimerval each = {{0, us}, {0, us}};
  setitimer(ITIMER_REAL, &each, 0);
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  (void)argv;
  if (argc > 1) {
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    unsigned counted[2];
    pthread_create(threads, 0, count, counted);
    alarm_each(300);
    count(counted + 1);
    pthread_join(threads[0], 0);
    alarm_each(0);
    nanosleep(&(struct timespec){0, 50000000}, 0);
    printf("handlers: %s\n", named == counted[0] + counted[1] + by_handlers ? "right" : "WRONG");
    return 0;
  }
  for (int i = 0; i < kThreads; ++i) pthread_create(threads + i, 0, work, 0);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  for (int i = 0; i < kThreads * kRounds; ++i) wrong += last[i] != 1;
  for (long i = 0; i < kThreads; ++i) pthread_create(threads + i, 0, take_turns, (void*)i);
  while (load(&turn) != kThreads * 20) {
  }
  wrong += turns != kThreads * 20;
  store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  printf("assembly: %u %u %u %u %llu %d counted, %d wrong\n", added, table[3], swapped, named, quad,
         with_lock, wrong);
  return 0;
}
