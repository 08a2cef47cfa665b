// Threads that may be cancelled at any time are, also while they compute (PTHREAD_CANCEL_ASYNCHRONOUS).
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { kEach = 3 };
static sem_t begun, never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int wrong, cleaned;
static double numbers[1 << 16];
static void expect(int right, const char* what) {
  if (right) return;
  printf("wrong: %s\n", what);
  ++wrong;
}
static void count(void* counter) {
  __atomic_add_fetch((int*)counter, 1, __ATOMIC_SEQ_CST);
}
__attribute__((noinline)) static double step(double x, int depth) {
  return depth == 0 ? x * 1.5 + 1 : step(x * 0.5, depth - 1) + 1e-9 * depth;
}
static void compute(void) {
  volatile double x = 1;
  sem_post(&begun);
  for (;;) x = step(x, 10) * 1e-3;
}
static void spin(void) {
  sem_post(&begun);
  for (;;) __asm__ volatile("");
}
static void write_numbers(void) {
  sem_post(&begun);
  for (unsigned i = 0;; ++i) numbers[i % (1 << 16)] += i;
}
static void use_memory(void) {
  sem_post(&begun);
  for (;;) {
    volatile char* p = malloc(100);
    p[0] = 1;
    free((void*)p);
  }
}
static void wait_for_semaphore(void) {
  sem_post(&begun);
  sem_wait(&never);
}
static void sleep_long(void) {
  sem_post(&begun);
  sleep(100);
}
static const struct Wait {
  void (*wait)(void);
  const char* name;
} waits[] = {{compute, "compute"},        {spin, "spin"},
             {write_numbers, "write"},    {use_memory, "malloc"},
             {wait_for_semaphore, "sem"}, {sleep_long, "sleep"}};
static void* wait_as(void* wait) {
  int former;
  pthread_cleanup_push(count, &cleaned);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &former);
  expect(former == PTHREAD_CANCEL_DEFERRED, "type");
  pthread_cleanup_push(count, &cleaned);
  ((const struct Wait*)wait)->wait();
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return NULL;
}
static void cancel_in(const struct Wait* wait, int pause_us) {
  pthread_t threads[kEach];
  void* result = NULL;
  cleaned = 0;
  for (int i = 0; i < kEach; ++i) pthread_create(&threads[i], NULL, wait_as, (void*)wait);
  for (int i = 0; i < kEach; ++i) sem_wait(&begun);
  usleep(pause_us);
  for (int i = 0; i < kEach; ++i) {
    pthread_cancel(threads[i]);
    expect(pthread_join(threads[i], &result) == 0 && result == PTHREAD_CANCELED, wait->name);
    expect(cleaned == 2 * (i + 1), wait->name);
  }
}
static void* lock_and_compute(void* unused) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  pthread_mutex_lock(&mutex);
  spin();
  return unused;
}
static void* enable(void* unused) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  sem_post(&begun);
  for (int i = 0; i < 20000000; ++i) __asm__ volatile("");
  count(&cleaned);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  count(&cleaned);
  return unused;
}
static void* end_itself(void* unused) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  pthread_cancel(pthread_self());
  count(&cleaned);
  return unused;
}
static void* change_type(void* unused) {
  sem_post(&begun);
  for (int i = 0; i < 20000000; ++i) __asm__ volatile("");
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  count(&cleaned);
  return unused;
}

int main(void) {
  pthread_t thread;
  void* result;
  sem_init(&begun, 0, 0);
  sem_init(&never, 0, 0);
  for (unsigned i = 0; i < sizeof waits / sizeof *waits; ++i) {
    cancel_in(&waits[i], 0);
    cancel_in(&waits[i], 10000);
  }
  // In a call that is no cancellation point, for something that who cancels has.
  pthread_mutex_lock(&mutex);
  pthread_create(&thread, NULL, lock_and_compute, NULL);
  usleep(20000);
  pthread_cancel(thread);
  usleep(20000);
  pthread_mutex_unlock(&mutex);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "a thread that waits for a mutex");

  cleaned = 0;
  pthread_create(&thread, NULL, enable, NULL);
  sem_wait(&begun);
  pthread_cancel(thread);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1,
         "a thread that may not be cancelled yet");
  pthread_create(&thread, NULL, end_itself, NULL);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1,
         "a thread that cancels itself");
  pthread_create(&thread, NULL, change_type, NULL);
  sem_wait(&begun);
  pthread_cancel(thread);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1,
         "a thread that changes its type");
  printf("cancels at once: %d wrong\n", wrong);
}
