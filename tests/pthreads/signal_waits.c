// Threads and main() wait for signals that others send to the process or to one thread.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static sigset_t blocked, before;
static pid_t process;
static pthread_t main_thread;
static volatile sig_atomic_t caught;
static int wrong;

static void expect(int right, const char* what) {
  if (right) return;
  printf("wrong: %s\n", what);
  ++wrong;
}

static void catch (int number) {
  caught = number;
}

static void* send_to_process(void* number) {
  kill(process, *(const int*)number);
  return 0;
}
static void* send_to_main(void* number) {
  pthread_kill(main_thread, *(const int*)number);
  return 0;
}
static void wait_for_one(void* (*sender)(void*), int number) {
  pthread_t thread;
  sigset_t set;
  int taken = 0;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_create(&thread, 0, sender, &number);
  expect(sigwait(&set, &taken) == 0 && taken == number, "sigwait()");
  pthread_join(thread, 0);
}
static void suspend_for_one(void* (*sender)(void*), int number) {
  pthread_t thread;
  caught = 0;
  pthread_create(&thread, 0, sender, &number);
  expect(sigsuspend(&before) == -1 && errno == EINTR && caught == number, "sigsuspend()");
  pthread_join(thread, 0);
}

static void* wait_for_quit(void* got) {
  sigset_t set;
  siginfo_t info;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  *(int*)got = sigwaitinfo(&set, &info) == SIGUSR1 && info.si_signo == SIGUSR1;
  return 0;
}
static void* wait_for_ever(void* p) {
  sigset_t set;
  int taken;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigwait(&set, &taken);
  return p;
}

int main(void) {
  enum { kWaiters = 2 };
  const struct timespec some = {0, 20000000};
  pthread_t waiters[kWaiters];
  pthread_t other;
  int got[kWaiters] = {0};
  process = getpid();
  main_thread = pthread_self();
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGUSR2);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  signal(SIGUSR2, catch);
  pthread_create(&other, 0, wait_for_ever, 0);
  pthread_detach(other);

  wait_for_one(send_to_process, SIGUSR1);
  wait_for_one(send_to_main, SIGUSR1);
  suspend_for_one(send_to_process, SIGUSR2);
  suspend_for_one(send_to_main, SIGUSR2);

  for (int i = 0; i < kWaiters; ++i) pthread_create(&waiters[i], 0, wait_for_quit, &got[i]);
  for (int i = kWaiters - 1; i >= 0; --i) {
    pthread_kill(waiters[i], SIGUSR1);
    pthread_join(waiters[i], 0);
    expect(got[i] == 1, "sigwaitinfo()");
  }
  expect(sigtimedwait(&blocked, 0, &some) == -1 && errno == EAGAIN, "sigtimedwait()");
  printf("signal waits: %d wrong\n", wrong);
  return 0;
}
