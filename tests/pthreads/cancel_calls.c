// Threads are cancelled in calls of the system that wait: with descriptors of their own, of another thread, and from before the start.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kEach = 2 };  // threads of each kind: in several clusters

extern char** environ;
static sem_t begun;
static int wrong, cleaned;
static int early[2], late[2];  // pipes, from before the start and of a thread
static FILE* nothing;
static sigset_t all_signals, awaited;

static void expect(int right, const char* what) {
  if (right) return;
  printf("wrong: %s\n", what);
  ++wrong;
}
static void count(void* counter) {
  __atomic_add_fetch((int*)counter, 1, __ATOMIC_SEQ_CST);
}

static void read_early(void) {
  char byte;
  sem_post(&begun);
  read(early[0], &byte, 1);
}
static void read_late(void) {
  char byte;
  sem_post(&begun);
  read(late[0], &byte, 1);
}
static void read_parts(void) {
  char bytes[2];
  struct iovec parts[2] = {{bytes, 1}, {bytes + 1, 1}};
  sem_post(&begun);
  readv(late[0], parts, 2);
}
static void read_parts_at_position(void) {
  char bytes[2];
  struct iovec parts[2] = {{bytes, 1}, {bytes + 1, 1}};
  sem_post(&begun);
  preadv2(early[0], parts, 2, -1, 0);
}
static void write_to_full_pipe(void) {
  static const char zeros[1 << 20];
  int ends[2];
  if (pipe(ends) != 0) return;
  sem_post(&begun);
  write(ends[1], zeros, sizeof zeros);
  write(ends[1], zeros, sizeof zeros);  // the first one has written a part
}
static void poll_for_ever(void) {
  struct pollfd one = {early[0], POLLIN, 0};
  sem_post(&begun);
  poll(&one, 1, -1);
}
static void poll_with_mask(void) {
  struct pollfd one = {early[0], POLLIN, 0};
  sem_post(&begun);
  ppoll(&one, 1, NULL, &all_signals);
}
static void select_for_ever(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(early[0], &set);
  sem_post(&begun);
  select(early[0] + 1, &set, NULL, NULL, NULL);
}
static void wait_for_events(void) {
  struct epoll_event event = {EPOLLIN, {0}};
  const int set = epoll_create1(0);
  epoll_ctl(set, EPOLL_CTL_ADD, early[0], &event);
  sem_post(&begun);
  epoll_wait(set, &event, 1, -1);
}
static void accept_one(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0 || listen(fd, 1) != 0) return;
  sem_post(&begun);
  accept(fd, NULL, NULL);
}
static void receive(void) {
  char byte;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  sem_post(&begun);
  recv(ends[0], &byte, 1, 0);
}
// Its own: two threads would wait for the stream's lock.
static FILE* lines(void) {
  return fdopen(dup(early[0]), "r");
}
static void read_line(void) {
  char line[10];
  sem_post(&begun);
  fgets(line, sizeof line, lines());
}
static void read_character(void) {
  sem_post(&begun);
  fgetc(lines());
}
static void read_number(void) {
  int number;
  sem_post(&begun);
  fscanf(lines(), "%d", &number);
}
static void read_block(void) {
  char bytes[10];
  sem_post(&begun);
  fread(bytes, 1, sizeof bytes, lines());
}
static void read_any_line(void) {
  char* line = NULL;
  size_t room = 0;
  sem_post(&begun);
  getline(&line, &room, lines());
}
static void print_elsewhere(void) {
  sem_post(&begun);
  for (;;) fprintf(nothing, "%d\n", 1);
}
static void put(void) {
  sem_post(&begun);
  for (;;) fputs("nothing", nothing);
}
static void wait_for_signal(void) {
  int number;
  sem_post(&begun);
  sigwait(&awaited, &number);
}
static void wait_for_signal_until(void) {
  const struct timespec time = {100, 0};
  sem_post(&begun);
  sigtimedwait(&awaited, NULL, &time);
}
static void suspend(void) {
  sem_post(&begun);
  sigsuspend(&all_signals);
}
static void pause_for_signal(void) {
  sem_post(&begun);
  sigpause(SIGUSR2);
}
static void pause_for_ever(void) {
  sem_post(&begun);
  pause();
}

static void end_child(void* child) {
  kill(*(pid_t*)child, SIGKILL);
  waitpid(*(pid_t*)child, NULL, 0);
}
static void wait_for_child(void) {
  pid_t child;
  char* words[] = {"sleep", "100", NULL};
  if (posix_spawnp(&child, "sleep", NULL, NULL, words, environ) != 0) return;
  pthread_cleanup_push(end_child, &child);
  sem_post(&begun);
  waitpid(child, NULL, 0);
  pthread_cleanup_pop(1);
}

static const struct Wait {
  void (*wait)(void);
  const char* name;
} waits[] = {{read_early, "read() of a pipe from before the start"},
             {read_late, "read() of a pipe of another thread"},
             {read_parts, "readv()"},
             {read_parts_at_position, "preadv2()"},
             {write_to_full_pipe, "write()"},
             {poll_for_ever, "poll()"},
             {poll_with_mask, "ppoll()"},
             {select_for_ever, "select()"},
             {wait_for_events, "epoll_wait()"},
             {accept_one, "accept()"},
             {receive, "recv()"},
             {read_line, "fgets()"},
             {read_character, "fgetc()"},
             {read_number, "fscanf()"},
             {read_block, "fread()"},
             {read_any_line, "getline()"},
             {print_elsewhere, "fprintf()"},
             {put, "fputs()"},
             {wait_for_signal, "sigwait()"},
             {wait_for_signal_until, "sigtimedwait()"},
             {suspend, "sigsuspend()"},
             {pause_for_signal, "sigpause()"},
             {pause_for_ever, "pause()"},
             {wait_for_child, "waitpid()"}};

static void* wait_as(void* wait) {
  pthread_cleanup_push(count, &cleaned);
  ((const struct Wait*)wait)->wait();
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
    if (pause_us > 0) expect(cleaned == i + 1, wait->name);
  }
  expect(cleaned == kEach, wait->name);
}

static void* open_pipe(void* unused) {
  if (pipe(late) != 0) return NULL;
  sem_post(&begun);
  read(early[0], unused, 1);
  return NULL;
}

// What has been read is not lost, and a thread that may not be cancelled is not interrupted.
static void* read_with_care(void* unused) {
  char bytes[3] = "";
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  sem_post(&begun);
  expect(read(early[0], bytes, 2) == 2 && !strcmp(bytes, "ab"),
         "read() of a thread that may not be cancelled");
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  count(&cleaned);
  read(early[0], bytes, 2);
  return unused;
}
static void* wait_at_last(void* unused) {
  char byte;
  read(early[0], &byte, 1);
  close(early[0]);
  return unused;
}

int main(void) {
  pthread_t thread, opener;
  void* result = NULL;
  char byte;
  sem_init(&begun, 0, 0);
  sigfillset(&all_signals);
  sigfillset(&awaited);
  sigdelset(&awaited, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &all_signals, NULL);  // which does not keep requests away
  if (pipe(early) != 0) return 1;
  nothing = fopen("/dev/null", "w");
  pthread_create(&opener, NULL, open_pipe, &byte);
  sem_wait(&begun);
  for (unsigned i = 0; i < sizeof waits / sizeof *waits; ++i) {
    cancel_in(&waits[i], 0);
    cancel_in(&waits[i], 10000);
  }
  pthread_cancel(opener);
  expect(pthread_join(opener, &result) == 0 && result == PTHREAD_CANCELED, "the thread with the pipe");

  cleaned = 0;
  pthread_create(&thread, NULL, read_with_care, NULL);
  sem_wait(&begun);
  usleep(5000);
  pthread_cancel(thread);
  usleep(5000);
  expect(write(early[1], "ab", 2) == 2, "write()");
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1,
         "a thread that was not interrupted");

  // The system goes on with the others' calls.
  pthread_create(&thread, NULL, wait_at_last, &byte);
  usleep(1000);
  expect(write(early[1], "c", 1) == 1, "write()");
  expect(pthread_join(thread, &result) == 0 && result == &byte, "a thread that was not cancelled");
  printf("cancelled calls: %d wrong\n", wrong);
  return 0;
}
