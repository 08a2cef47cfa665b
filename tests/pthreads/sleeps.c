/* Threads that wait for plain variables in loops that sleep or yield; the writers go on to wait for something else. And what sleeps return. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#define WAYS 7

static int begun[WAYS], told[WAYS], answer[WAYS];
static int wrong, interrupted;
static sem_t never;

static void pause_by(int way) {
  const struct timespec ms = {0, 1000000};
  struct timeval time = {0, 1000};
  switch (way) {
    case 0:
      usleep(1000);
      break;
    case 1:
      nanosleep(&ms, NULL);
      break;
    case 2:
      clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
      break;
    case 3: {
      struct timespec until;
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += 2000000;
      if (until.tv_nsec >= 1000000000) ++until.tv_sec, until.tv_nsec -= 1000000000;
      clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
      break;
    }
    case 4:
      poll(NULL, 0, 1);
      break;
    case 5:
      select(0, NULL, NULL, NULL, &time);
      break;
    default:
      sched_yield();
  }
}

static void* wait_to_be_told(void* argument) {
  const int way = (int)(long)argument;
  begun[way] = 1;
  while (!told[way]) pause_by(way);
  answer[way] = told[way] + 1;
  sem_wait(&never);
  return NULL;
}

static void* wait_alone(void* argument) {
  answer[0] = 0;
  while (!told[0]) sleep(1);
  return argument;
}

static void handle(int number) {
  interrupted = number;
}

static void check_results(void) {
  struct timespec rest = {0, 0}, time = {5, 0};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handle;
  sigaction(SIGALRM, &action, NULL);
  alarm(1);
  wrong += nanosleep(&time, &rest) != -1 || errno != EINTR || rest.tv_sec < 1 || rest.tv_sec > 4;
  alarm(1);
  wrong += sleep(5) < 1;
  alarm(1);
  wrong += clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &rest) != EINTR || rest.tv_sec < 1;
  alarm(1);
  wrong += poll(NULL, 0, 5000) != -1 || errno != EINTR;
  wrong += interrupted != SIGALRM;
  time.tv_nsec = 1000000000;
  errno = 0;
  wrong += nanosleep(&time, NULL) != -1 || errno != EINVAL ||
           clock_nanosleep(CLOCK_REALTIME, 0, &time, NULL) != EINVAL;
  wrong += sleep(0) != 0 || usleep(0) != 0;
}

int main(int argc, char** argv) {
  pthread_t threads[WAYS], last;
  sem_init(&never, 0, 0);
  if (argc > 1) {
    wrong += strcmp(argv[1], "results") != 0;
    pthread_create(&last, NULL, wait_to_be_told, NULL);
    check_results();
    told[0] = 1;
    sem_post(&never);
    pthread_join(last, NULL);
    printf("results: %d wrong\n", wrong);
    return 0;
  }
  for (long way = 0; way < WAYS; ++way) pthread_create(&threads[way], NULL, wait_to_be_told, (void*)way);
  for (int way = 0; way < WAYS; ++way) {
    while (!begun[way]) pause_by(way);
    told[way] = 10 + way;
    while (!answer[way]) pause_by(way);
    wrong += answer[way] != 11 + way;
  }
  for (int way = 0; way < WAYS; ++way) sem_post(&never);
  for (int way = 0; way < WAYS; ++way) pthread_join(threads[way], NULL);
  told[0] = 0;
  pthread_create(&last, NULL, wait_alone, NULL);
  while (answer[0]) sleep(1);
  told[0] = 1;
  pthread_join(last, NULL);
  printf("sleeps: %d wrong\n", wrong);
  return 0;
}
