#include "tests/dsm/live_fortified_calls.h"

#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char* shared_memory;
/* The compiler learns the size from the attribute, and checks the calls at run time because the numbers vary. */
__attribute__((alloc_size(1), noinline)) static char* known(size_t bytes) {
  return shared_memory + 0 * bytes;
}

#define CHECK(right) \
  if (!(right)) return __LINE__

int braid_fortified_calls(char* shared) {
  shared_memory = shared;
  char* const block = known(kFortifiedBytes);
  volatile size_t some = 5;
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CHECK(write(ends[0], "read recv from", 14) == 14);
  CHECK(read(ends[1], block, some) == 5 && memcmp(block, "read ", 5) == 0);
  CHECK(recv(ends[1], block, some, 0) == 5 && memcmp(block, "recv ", 5) == 0);
  CHECK(recvfrom(ends[1], block, some, 0, NULL, NULL) == 4 && memcmp(block, "from", 4) == 0);
  close(ends[0]);
  close(ends[1]);
  FILE* const file = tmpfile();
  CHECK(file != NULL && fwrite("hello world", 1, 11, file) == 11 && fflush(file) == 0);
  CHECK(pread(fileno(file), block, some, 6) == 5 && memcmp(block, "world", 5) == 0);
  rewind(file);
  CHECK(fread(block, 1, some, file) == 5 && memcmp(block, "hello", 5) == 0);
  fclose(file);
  some = 4000;
  CHECK(readlink("/proc/self/cwd", block, some) > 0 && block[0] == '/');
  CHECK(readlinkat(AT_FDCWD, "/proc/self/cwd", block, some) > 0 && block[0] == '/');
  CHECK(getcwd(block, some) == block && block[0] == '/');
  CHECK(gethostname(block, some) == 0);
  CHECK(getgroups((int)(some / sizeof(gid_t)), (gid_t*)block) == getgroups(0, NULL));
  struct pollfd* const fds = (struct pollfd*)block;
  const struct timespec no_time = {0, 0};
  memset(fds, 0, sizeof *fds);
  fds->fd = -1;
  some = 1;
  CHECK(poll(fds, some, 0) == 0 && ppoll(fds, some, &no_time, NULL) == 0);
  return 0;
}
