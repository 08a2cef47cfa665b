/* As many threads as there are processors, beside a main() that joins them; each binds itself to one. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <sys/types.h>
#include <unistd.h>

#define CHECK(what) ((what) ? 0 : (fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what), ++wrong))

enum { kMost = 200 };
static pthread_barrier_t all;
static int results[kMost];

static int bind(long processor, long processors) {
  int wrong = 0;
  cpu_set_t set, mine;
  CPU_ZERO(&mine);
  CPU_SET(processor, &mine);
  CHECK(sched_setaffinity(0, sizeof mine, &mine) == 0 &&
        sched_setaffinity(gettid(), sizeof mine, &mine) == 0);
  CHECK(pthread_setaffinity_np(pthread_self(), sizeof mine, &mine) == 0);
  CHECK(sched_getaffinity(getpid(), sizeof set, &set) == 0 && CPU_COUNT(&set) == processors &&
        CPU_ISSET(processor, &set));
  CPU_ZERO(&set);
  CHECK(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 && CPU_COUNT(&set) == processors);
  CHECK(sched_getaffinity(0, 0, &set) == -1 && errno == EINVAL);
  CHECK(sched_setaffinity(-1, sizeof mine, &mine) == -1 && sched_getaffinity(-1, sizeof set, &set) == -1);
  unsigned here = kMost;
  CHECK(sched_getcpu() < processors && getcpu(&here, NULL) == 0 && (int)here == sched_getcpu());
  return wrong;
}

static void* run(void* argument) {
  const long i = (long)argument, processors = sysconf(_SC_NPROCESSORS_ONLN);
  results[i] = bind(i, processors);
  pthread_barrier_wait(&all);
  return NULL;
}

int main(void) {
  int wrong = 0;
  pthread_t names[kMost];
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  CHECK(get_nprocs() == processors && sysconf(_SC_NPROCESSORS_CONF) == processors &&
        get_nprocs_conf() == processors);
  wrong += bind(processors - 1, processors);
  pthread_barrier_init(&all, NULL, (unsigned)processors);
  for (long i = 0; i < processors; ++i) pthread_create(&names[i], NULL, run, (void*)i);
  for (long i = 0; i < processors; ++i) {
    pthread_join(names[i], NULL);
    wrong += results[i];
  }
  printf("processors: %ld, %d wrong\n", processors, wrong);
  return wrong != 0;
}
