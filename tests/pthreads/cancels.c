// Threads are cancelled while they wait, sleep or compute, and end at their next cancellation point, by their cleanup handlers.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { kEach = 3 };  // threads of each kind: in several clusters

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore, begun, go;
static pthread_t sleepers[kEach];  // one for each that joins
static pthread_key_t key;
static int wrong, cleaned, destroyed, held, order, joiners;

static void expect(int right, const char* what) {
  if (right) return;
  printf("wrong: %s\n", what);
  ++wrong;
}

static void count(void* counter) {
  __atomic_add_fetch((int*)counter, 1, __ATOMIC_SEQ_CST);
}
static void destroy(void* value) {
  count(value);
}
static void give_up_mutex(void* unused) {
  (void)unused;
  // The thread has it: nobody else counts meanwhile.
  const int before = ++held;
  usleep(1000);
  if (held != before) wrong += 1000;
  pthread_mutex_unlock(&mutex);
}

static struct timespec in_seconds(int seconds) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_sec += seconds;
  return time;
}

// --- What they wait in

static void wait_for_condition(void) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(give_up_mutex, NULL);
  sem_post(&begun);
  for (;;) pthread_cond_wait(&condition, &mutex);
  pthread_cleanup_pop(1);
}
static void wait_for_condition_until(void) {
  const struct timespec end = in_seconds(100);
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(give_up_mutex, NULL);
  sem_post(&begun);
  while (pthread_cond_timedwait(&condition, &mutex, &end) == 0) {
  }
  pthread_cleanup_pop(1);
}
static void wait_for_semaphore(void) {
  sem_post(&begun);
  sem_wait(&semaphore);
}
static void wait_for_semaphore_until(void) {
  const struct timespec end = in_seconds(100);
  sem_post(&begun);
  sem_timedwait(&semaphore, &end);
}
static pthread_t sleeper(void) {
  return sleepers[__atomic_fetch_add(&joiners, 1, __ATOMIC_SEQ_CST) % kEach];
}
static void wait_for_thread(void) {
  sem_post(&begun);
  pthread_join(sleeper(), NULL);
}
static void wait_for_thread_until(void) {
  const struct timespec end = in_seconds(100);
  sem_post(&begun);
  pthread_timedjoin_np(sleeper(), NULL, &end);
}
static void sleep_long(void) {
  sem_post(&begun);
  sleep(100);
}
static void sleep_often(void) {
  sem_post(&begun);
  for (;;) usleep(200);
}
static void sleep_precisely(void) {
  const struct timespec time = {100, 5};
  sem_post(&begun);
  nanosleep(&time, NULL);
}
static void sleep_until(void) {
  const struct timespec end = in_seconds(100);
  sem_post(&begun);
  clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &end, NULL);
}
static void sleep_by_poll(void) {
  sem_post(&begun);
  poll(NULL, 0, 100000);
}
static void sleep_by_select(void) {
  struct timeval time = {100, 0};
  sem_post(&begun);
  select(0, NULL, NULL, NULL, &time);
}
static void sleep_by_c11(void) {
  const struct timespec time = {100, 0};
  sem_post(&begun);
  thrd_sleep(&time, NULL);
}
static void compute(void) {
  sem_post(&begun);
  for (;;) pthread_testcancel();
}

static const struct Wait {
  void (*wait)(void);
  const char* name;
} waits[] = {{wait_for_condition, "pthread_cond_wait()"},
             {wait_for_condition_until, "pthread_cond_timedwait()"},
             {wait_for_semaphore, "sem_wait()"},
             {wait_for_semaphore_until, "sem_timedwait()"},
             {wait_for_thread, "pthread_join()"},
             {wait_for_thread_until, "pthread_timedjoin_np()"},
             {sleep_long, "sleep()"},
             {sleep_often, "usleep()"},
             {sleep_precisely, "nanosleep()"},
             {sleep_until, "clock_nanosleep()"},
             {sleep_by_poll, "poll() of nothing"},
             {sleep_by_select, "select() of nothing"},
             {sleep_by_c11, "thrd_sleep()"},
             {compute, "pthread_testcancel()"}};

static void* wait_as(void* wait) {
  pthread_setspecific(key, &destroyed);
  pthread_cleanup_push(count, &cleaned);
  pthread_cleanup_push(count, &cleaned);
  ((const struct Wait*)wait)->wait();
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return NULL;
}

// After they have begun to wait, or at once.
static void cancel_in(const struct Wait* wait, int pause_us) {
  pthread_t threads[kEach];
  void* result = NULL;
  cleaned = destroyed = held = 0;
  for (int i = 0; i < kEach; ++i) pthread_create(&threads[i], NULL, wait_as, (void*)wait);
  if (pause_us > 0) {
    for (int i = 0; i < kEach; ++i) sem_wait(&begun);
    usleep(pause_us);
  }
  // One after the other, the last first: the others go on waiting.
  for (int i = kEach - 1; i >= 0; --i) {
    expect(pthread_cancel(threads[i]) == 0, "pthread_cancel()");
    expect(pthread_join(threads[i], &result) == 0 && result == PTHREAD_CANCELED, wait->name);
    expect(pause_us == 0 || cleaned == 2 * (kEach - i), "cleanup handlers");
    expect(pause_us == 0 || destroyed == kEach - i, "destructors of keys");
  }
  expect(cleaned == 2 * kEach && destroyed == kEach, wait->name);
  expect(pthread_mutex_trylock(&mutex) == 0, "the mutex is free");
  pthread_mutex_unlock(&mutex);
  while (sem_trywait(&begun) == 0) {
  }
}

// --- Who is cancelled and has something to do before it ends

static void* disable(void* unused) {
  int former = -1;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &former);
  expect(former == PTHREAD_CANCEL_ENABLE, "the state at the beginning");
  sem_post(&begun);
  sem_wait(&go);
  pthread_testcancel();
  usleep(1000);
  ++order;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &former);
  expect(former == PTHREAD_CANCEL_DISABLE, "the state that was set");
  ++order;
  pthread_testcancel();
  order = 100;
  return unused;
}
static void* take_what_is_there(void* unused) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  sem_post(&begun);
  sem_wait(&go);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  sem_wait(&semaphore);  // it is there
  return unused;
}
static void* end_itself(void* unused) {
  expect(pthread_cancel(pthread_self()) == 0, "pthread_cancel() of oneself");
  order = 1;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  order = 2;
  pthread_testcancel();
  order = 3;
  return unused;
}
static void* return_at_once(void* unused) {
  return unused;
}
static void note_order(void* digit) {
  order = 10 * order + (int)(long)digit;
}
static void* have_many_handlers(void* unused) {
  pthread_cleanup_push(note_order, (void*)1);
  pthread_cleanup_push(note_order, (void*)2);
  pthread_cleanup_push(note_order, (void*)3);
  pthread_cleanup_pop(1);
  pthread_cleanup_push(note_order, (void*)4);
  pthread_cancel(pthread_self());
  sleep(100);
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return unused;
}
static void wait_in_handler(void* unused) {
  (void)unused;
  // Who ends already is not cancelled by these.
  usleep(1000);
  pthread_testcancel();
  sem_post(&semaphore);
  sem_wait(&semaphore);
  count(&cleaned);
}
static void* wait_while_it_ends(void* unused) {
  pthread_cleanup_push(wait_in_handler, NULL);
  sem_post(&begun);
  sem_wait(&semaphore);
  pthread_cleanup_pop(0);
  return unused;
}
static void* cancel_the_other(void* other) {
  pthread_cancel(*(pthread_t*)other);
  return NULL;
}
static void* join_the_other(void* other) {
  void* result = NULL;
  pthread_join(*(pthread_t*)other, &result);
  return result;
}

static void single_cases(void) {
  pthread_t thread, other;
  void* result = NULL;

  pthread_create(&thread, NULL, disable, NULL);
  sem_wait(&begun);
  pthread_cancel(thread);
  sem_post(&go);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && order == 2,
         "a thread that may not be cancelled yet");

  // As POSIX demands, and at least as the C library does: the semaphore's value is one or zero then.
  int value = -1;
  pthread_create(&thread, NULL, take_what_is_there, NULL);
  sem_wait(&begun);
  pthread_cancel(thread);
  sem_post(&semaphore);
  sem_post(&go);
  pthread_join(thread, &result);
  sem_getvalue(&semaphore, &value);
  expect(result == PTHREAD_CANCELED && value == 1, "a semaphore that is free");
  sem_wait(&semaphore);

  pthread_create(&thread, NULL, end_itself, NULL);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && order == 2,
         "a thread that cancels itself");

  order = 0;
  pthread_create(&thread, NULL, have_many_handlers, NULL);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && order == 3421,
         "the order of handlers");

  pthread_create(&thread, NULL, return_at_once, &cleaned);
  usleep(20000);
  expect(pthread_cancel(thread) == 0, "pthread_cancel() of one that has ended");
  expect(pthread_join(thread, &result) == 0 && result == &cleaned, "one that has ended");

  cleaned = 0;
  pthread_create(&thread, NULL, wait_while_it_ends, NULL);
  sem_wait(&begun);
  pthread_cancel(thread);
  usleep(100);
  pthread_cancel(thread);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1,
         "cancellation points in handlers");

  // By a thread that another joins, both of other clusters.
  pthread_create(&thread, NULL, wait_as, (void*)&waits[2]);
  sem_wait(&begun);
  pthread_create(&other, NULL, cancel_the_other, &thread);
  pthread_join(other, NULL);
  pthread_create(&other, NULL, join_the_other, &thread);
  expect(pthread_join(other, &result) == 0 && result == PTHREAD_CANCELED, "joined by another thread");

  // A thread whose join was cancelled can be joined.
  pthread_create(&thread, NULL, return_at_once, &order);
  expect(pthread_join(thread, &result) == 0 && result == &order, "after all");
}

// Signals reach those that were not cancelled.
static int permits, taken;
static void* take_permit(void* unused) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push((void (*)(void*))pthread_mutex_unlock, &mutex);
  sem_post(&begun);
  while (permits == 0) pthread_cond_wait(&condition, &mutex);
  --permits;
  ++taken;
  pthread_cleanup_pop(1);
  return unused;
}
static void permit(void) {
  pthread_mutex_lock(&mutex);
  ++permits;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
}
static void signals_are_not_lost(void) {
  enum { kThreads = 6 };
  pthread_t threads[kThreads];
  void* result;
  int ended = 0;
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, take_permit, NULL);
  for (int i = 0; i < kThreads; ++i) sem_wait(&begun);
  for (int i = 0; i < kThreads / 2; ++i) pthread_cancel(threads[2 * i]);
  for (int i = 0; i < kThreads / 2; ++i) permit();
  for (int i = 0; i < kThreads; i += 2) {
    pthread_join(threads[i], &result);
    if (result == PTHREAD_CANCELED)
      ++ended;
    else
      permit();  // it has taken another's before it was cancelled
  }
  for (int i = 1; i < kThreads; i += 2) pthread_join(threads[i], NULL);
  expect(ended + taken == kThreads && taken >= kThreads / 2 && permits == 0, "signals of a condition");
}

static void* sleep_for_ever(void* unused) {
  for (;;) sleep(1000);
  return unused;
}

static void say_end(void* unused) {
  (void)unused;
  printf("main() was cancelled, %d wrong\n", wrong);
}

int main(int argc, char** argv) {
  void* result;
  sem_init(&semaphore, 0, 0);
  sem_init(&begun, 0, 0);
  sem_init(&go, 0, 0);
  pthread_key_create(&key, destroy);
  for (int i = 0; i < kEach; ++i) pthread_create(&sleepers[i], NULL, sleep_for_ever, NULL);
  for (unsigned i = 0; i < sizeof waits / sizeof *waits; ++i) {
    cancel_in(&waits[i], 0);
    cancel_in(&waits[i], 5000);
  }
  single_cases();
  signals_are_not_lost();
  for (int i = 0; i < kEach; ++i) {
    pthread_cancel(sleepers[i]);
    expect(pthread_join(sleepers[i], &result) == 0 && result == PTHREAD_CANCELED,
           "a thread that others have waited for");
  }
  printf("cancels: %d wrong\n", wrong);
  if (argc == 1) return 0;
  pthread_cleanup_push(say_end, argv);
  pthread_cancel(pthread_self());
  sleep(100);
  pthread_cleanup_pop(0);
  return 1;
}
