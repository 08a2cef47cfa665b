// Descriptors that threads open are used by others: each of three opens a file and a pipe, the next one writes to them, and the one
// after that reads and closes them. On several clusters these are in different ones. The end of a pipe from before the start is
// closed by one of them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int files[3], early[2], pipes[3][2], sockets[3][2], events[3];
static pthread_barrier_t all;
static int wrong;
static __thread char own[50];
static char large[3][3 << 20];

static void check(int right, int at) {
  if (right) return;
  printf("line %d: errno %d\n", at, errno);
  ++wrong;
}
#define IS(x) check(x, __LINE__)

static void open_all(long i) {
  char name[20];
  sprintf(name, "fd%ld", i);
  files[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  events[i] = eventfd(0, 0);
  IS(files[i] >= 0 && events[i] >= 0 && pipe(pipes[i]) == 0 &&
     socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]) == 0);
}

static void write_to(long i) {
  const int fd = files[i];
  struct iovec parts[2] = {{own, 3}, {"cd", 2}};
  strcpy(own, "xab");
  IS(write(fd, "01", 2) == 2 && writev(fd, parts, 2) == 5 && pwrite(fd, own, 1, 6) == 1);
  IS(lseek(fd, 0, SEEK_CUR) == 7 && ftruncate(fd, 10) == 0 && fsync(fd) == 0);
  memset(large[i], 'l', sizeof large[i]);
  IS(pwrite(fd, large[i], sizeof large[i], 4096) == sizeof large[i]);
  IS(write(pipes[i][1], "piped", 5) == 5);
  IS(send(sockets[i][1], own, 3, 0) == 3);
  int on = 1;
  IS(sendto(sockets[i][1], "to", 2, 0, NULL, 0) == 2 && dprintf(sockets[i][1], "%s %d", own, 12) == 6);
  IS(setsockopt(sockets[i][1], SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0);
  IS(write(events[i], &(unsigned long){5}, 8) == 8);
}

static void read_from(long i) {
  const int fd = files[i];
  char bytes[8] = {0};
  unsigned long events_seen = 0;
  struct iovec parts[2] = {{bytes, 2}, {own, 3}};
  struct stat status;
  IS(lseek(fd, 1, SEEK_SET) == 1 && readv(fd, parts, 2) == 5 && !memcmp(bytes, "1x", 2) &&
     !memcmp(own, "abc", 3));
  IS(read(fd, own, 1) == 1 && own[0] == 'x' && pread(fd, bytes, 8, 5) == 8 && !memcmp(bytes, "cx\0\0\0", 5));
  IS(fstat(fd, &status) == 0 && status.st_size == 4096 + sizeof large[i]);
  IS(pread(fd, large[i], sizeof large[i], 4097) == sizeof large[i] - 1 &&
     large[i][sizeof large[i] - 2] == 'l');
  IS((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
     fcntl(fd, F_GETFD) == FD_CLOEXEC);
  const int other = dup(fd);
  IS(other >= 0 && other != fd && read(other, bytes, 1) == 1 && close(other) == 0);
  char* const memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  IS(memory != MAP_FAILED && !memcmp(memory, "01xabcx", 7) && munmap(memory, 4096) == 0);
  FILE* const stream = fdopen(dup(fd), "r+");
  IS(stream != NULL && fseek(stream, 2, SEEK_SET) == 0 && fgets(own, 5, stream) != NULL &&
     !strcmp(own, "xabc"));
  IS(fseek(stream, 0, SEEK_SET) == 0 && fputs("ij", stream) >= 0 && fclose(stream) == 0);
  IS(pread(fd, bytes, 3, 0) == 3 && !memcmp(bytes, "ijx", 3) && fdopen(999, "r") == NULL && errno == EBADF);
  pthread_barrier_wait(&all);  // the number of a closed one is not another's meanwhile
  IS(close(fd) == 0 && close(fd) == -1 && errno == EBADF && read(fd, bytes, 1) == -1 && errno == EBADF);
  IS(close(pipes[i][1]) == 0 && read(pipes[i][0], own, 50) == 5 && !memcmp(own, "piped", 5));
  IS(read(pipes[i][0], bytes, 1) == 0 && close(pipes[i][0]) == 0);
  struct pollfd ready = {sockets[i][0], POLLIN | POLLOUT, 0}, none = {sockets[i][1], POLLIN, 0};
  IS(poll(&ready, 1, -1) == 1 && ready.revents == (POLLIN | POLLOUT) && poll(&none, 1, 1) == 0 &&
     none.revents == 0);
  struct sockaddr_storage address = {.ss_family = 77};
  socklen_t address_bytes = sizeof address, on_bytes = sizeof(int);
  IS(getsockname(sockets[i][0], (struct sockaddr*)&address, &address_bytes) == 0 &&
     address.ss_family == AF_UNIX);
  address.ss_family = 77;
  IS(getpeername(sockets[i][0], (struct sockaddr*)&address, &address_bytes) == 0 &&
     address.ss_family == AF_UNIX);
  int on = 0;
  IS(getsockopt(sockets[i][1], SOL_SOCKET, SO_KEEPALIVE, &on, &on_bytes) == 0 && on == 1 &&
     on_bytes == sizeof on);
  IS(recvfrom(sockets[i][0], own, 5, 0, NULL, NULL) == 5 && !memcmp(own, "xabto", 5));
  IS(recv(sockets[i][0], own, 50, 0) == 6 && !memcmp(own, "xab 12", 6) &&
     shutdown(sockets[i][0], SHUT_WR) == 0);
  IS(recv(sockets[i][1], own, 1, 0) == 0 && close(sockets[i][0]) == 0 && close(sockets[i][1]) == 0);
  IS(read(events[i], &events_seen, 8) == 8 && events_seen == 5 && close(events[i]) == 0);
}

static void* use(void* argument) {
  const long i = (long)argument;
  open_all(i);
  pthread_barrier_wait(&all);
  write_to((i + 1) % 3);
  pthread_barrier_wait(&all);
  read_from((i + 2) % 3);
  pthread_barrier_wait(&all);
  if (i == 0) IS(write(early[1], "early", 5) == 5 && close(early[1]) == 0);
  pthread_barrier_wait(&all);
  if (i == 1) IS(read(early[0], own, 50) == 5 && read(early[0], own, 50) == 0 && close(early[0]) == 0);
  return NULL;
}

int main(void) {
  pthread_t threads[3];
  IS(pipe(early) == 0);
  pthread_barrier_init(&all, NULL, 3);
  for (long i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, use, (void*)i);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  printf("descriptors: %d wrong\n", wrong);
  return 0;
}
