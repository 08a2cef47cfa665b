/* Globals of every kind, of C files and of a C++ archive: what one compute node writes, all others read after a barrier; what
   belongs to libraries stays each cluster's own. main() runs once, and goes on in every cluster after the start. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dsm/braid_dsm.h"
#include "mixed.h"

#ifndef MIB /* of .data, and of .bss */
#define MIB 2
#endif
enum { kNumbers = MIB << 18, kStep = 1024 }; /* a page */

int numbers[kNumbers] = {1, 2, 3}; /* .data */
int zeros[kNumbers];               /* .bss */
int tentative;                     /* COMMON with -fcommon */
static int hidden = 5;
int r = 1, relro = 2, rel = 3; /* .data.r, .data.relro, .data.rel with -fdata-sections */
int* pointer = &hidden;
const char* const constant_pointer = "constant";
FILE* opened_before;
char path[64] = "/dev/null";
struct stat status;
char buffer_of_stdout[4096];
static __thread int own = 9;
int wrong;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "wrong: %s\n", what);
  __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}
#define EXPECT(condition) expect(condition, #condition)

static void write_all(unsigned id) {
  numbers[0] = 77;
  tentative = 78;
  hidden = 79;
  r = rel = relro = 80;
  pointer = &zeros[5];
  strcpy(path, "/");
  stat(path, &status); /* by the kernel */
  optarg = path;
  optind = 81;
  environ = NULL;
  stdout = NULL;
  own = 82;
  write_cpp(id);
}

static void read_all(int is_writers_cluster) {
  EXPECT(numbers[0] == 77);
  EXPECT(numbers[2] == 3);
  EXPECT(tentative == 78);
  EXPECT(hidden == 79);
  EXPECT(r + rel + relro == 240);
  EXPECT(pointer == &zeros[5]);
  EXPECT(S_ISDIR(status.st_mode));
  if (!is_writers_cluster) {
    EXPECT(optarg == NULL);
    EXPECT(optind != 81);
    EXPECT(environ != NULL);
    EXPECT(stdout != NULL);
    EXPECT(own == 9);
    EXPECT(fputs("x", opened_before) >= 0);
  }
  EXPECT(strcmp(constant_pointer, "constant") == 0);
  wrong += read_cpp();
}

static void work(braid_node* node, void* argument) {
  (void)argument;
  const unsigned id = braid_node_id(node), count = braid_node_count(node), writer = count - 1;
  unsigned bad = 0;
  for (unsigned at = id * kStep; at < kNumbers; at += count * kStep) {
    bad += numbers[at + 3] != 0 || zeros[at] != 0;
    numbers[at + 3] = zeros[at] = (int)(at + id);
  }
  for (unsigned n = 0; n < 50; ++n) {
    braid_lock(node, 0);
    zeros[1] += 1;
    braid_unlock(node, 0);
  }
  braid_barrier(node, 0);
  FILE* const out = stdout;
  char** const variables = environ;
  if (id == writer) write_all(id);
  braid_barrier(node, 0);
  EXPECT(braid_reduce_int64(node, 1, BRAID_SUM, 0) == count);
  if (id == writer) {
    stdout = out;
    environ = variables;
    optarg = NULL;
    optind = 1;
    own = 9;
  }
  read_all(id / braid_nodes_per_cluster() == writer / braid_nodes_per_cluster());
  for (unsigned at = (id + 1) * kStep; at < kNumbers; at += 64 * kStep)
    bad += numbers[at + 3] != zeros[at] || zeros[at] != (int)(at + at / kStep % count);
  EXPECT(bad == 0);
}

int main(void) {
  setvbuf(stdout, buffer_of_stdout, _IOFBF, sizeof buffer_of_stdout);
  opened_before = fopen("/dev/null", "w");
  numbers[1] = 22;
  begin_cpp();
  const unsigned cluster = braid_start_clusters();
  braid_init();
  const unsigned nodes = braid_clusters() * braid_nodes_per_cluster();
  EXPECT(numbers[1] == 22);
  braid_parallel(work, NULL);
  braid_finish(0);
  if (cluster != 0) _exit(0); /* destructors of globals run in cluster 0 */
  EXPECT(zeros[1] == (int)nodes * 50);
  unsigned bad = 0;
  for (unsigned at = kStep; at < kNumbers; at += kStep) bad += zeros[at] != (int)(at + at / kStep % nodes);
  EXPECT(bad == 0);
  zeros[2] = 1; /* private again */
  printf("globals of %u nodes: %d wrong, %s\n", nodes, wrong, end_cpp());
  return wrong != 0;
}
