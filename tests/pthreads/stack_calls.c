// Calls that wait, with arguments on a stack whose page a thread of another cluster writes meanwhile.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
static int ends[2];
static int wrong;

// Takes the page, and ends the wait later.
static void* disturb(void* p) {
  long* const value = p;
  ++*value;
  usleep(20000);
  ++*value;
  if (write(ends[1], "x", 1) != 1) abort();
  return 0;
}

#define EXPECT_WHILE_DISTURBED(what, is_right)                                  \
  do {                                                                          \
    char byte = 0;                                                              \
    pthread_create(&thread, 0, disturb, &value);                                \
    if (!(is_right)) printf("wrong: %s: %s\n", what, strerror(errno)), ++wrong; \
    pthread_join(thread, 0);                                                    \
    while (recv(ends[0], &byte, 1, MSG_DONTWAIT) == 1) {                        \
    }                                                                           \
  } while (0)

int main(void) {
  pthread_t thread;
  long value = 0;
  char bytes[8];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;

  EXPECT_WHILE_DISTURBED("read", read(ends[0], bytes, 1) == 1);
  struct pollfd watched = {ends[0], POLLIN, 0};
  EXPECT_WHILE_DISTURBED("poll", poll(&watched, 1, 5000) == 1 && watched.revents == POLLIN);
  struct timespec some = {5, 0};
  watched.revents = 0;
  EXPECT_WHILE_DISTURBED("ppoll", ppoll(&watched, 1, &some, 0) == 1 && watched.revents == POLLIN);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  struct timeval limit = {5, 0};
  EXPECT_WHILE_DISTURBED("select", select(ends[0] + 1, &set, 0, 0, &limit) == 1 && FD_ISSET(ends[0], &set));
  struct epoll_event event = {.events = EPOLLIN};
  const int epoll = epoll_create1(0);
  epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
  event.events = 0;
  EXPECT_WHILE_DISTURBED("epoll_wait", epoll_wait(epoll, &event, 1, 5000) == 1 && event.events == EPOLLIN);
  struct sockaddr_storage from;
  socklen_t from_bytes = sizeof from;
  EXPECT_WHILE_DISTURBED("recvfrom",
                         recvfrom(ends[0], bytes, 8, 0, (struct sockaddr*)&from, &from_bytes) == 1);
  struct iovec part = {bytes, 8};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  EXPECT_WHILE_DISTURBED("recvmsg", recvmsg(ends[0], &message, 0) == 1);

  char* words[] = {"sh", "-c", "sleep 0.05; exit 3", 0};
  pid_t process;
  int status = 0;
  if (posix_spawnp(&process, "sh", 0, 0, words, environ) != 0) return 1;
  EXPECT_WHILE_DISTURBED("waitpid", waitpid(process, &status, 0) == process && WEXITSTATUS(status) == 3);
  EXPECT_WHILE_DISTURBED("system", (status = system("sleep 0.05; exit 3")) != -1 && WEXITSTATUS(status) == 3);
  FILE* const pipe = popen("sleep 0.05; exit 3", "r");
  EXPECT_WHILE_DISTURBED("pclose", (status = pclose(pipe)) != -1 && WEXITSTATUS(status) == 3);
  printf("stack calls: %d wrong, %ld\n", wrong, value);
  return 0;
}
