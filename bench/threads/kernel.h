/* Shared by the thread programs of this folder: options, threads, time, and one line of results:
 *
 *     tree: 4 threads, parallel 0.031 s, result 9c1f03d25b7e8a41
 *
 * The result depends on the sizes only, not on the number of threads or their order. Plain POSIX threads: bench/thread_programs
 * builds each program with the compiler alone, and with braid-cc --pthreads. */
#ifndef BENCH_THREADS_KERNEL_H
#define BENCH_THREADS_KERNEL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A permutation of 64 bits in which every bit of the result depends on every bit of `x`. */
static inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* The number `index` of a random sequence, in [0, 1). */
static inline double uniform(uint64_t seed, uint64_t index) {
  return (double)(mix(seed * 0x100000001b3u + index) >> 11) * 0x1p-53;
}

static inline uint64_t hash_bytes(uint64_t hash, const void* bytes, size_t count) {
  const unsigned char* const b = (const unsigned char*)bytes;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ b[i]) * 0x100000001b3u;
  return hash;
}

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* The argument number `index`, or `otherwise`; ends the program if it is no number from `least` to `most`. */
static inline long argument(int argc, char** argv, int index, const char* name, long otherwise, long least,
                            long most) {
  if (argc <= index) return otherwise;
  char* end;
  const long value = strtol(argv[index], &end, 10);
  if (*end == '\0' && end != argv[index] && value >= least && value <= most) return value;
  fprintf(stderr, "%s: %s is '%s': a number from %ld to %ld is needed\n", argv[0], name, argv[index], least,
          most);
  exit(2);
}

enum { MAX_THREADS = 64 };

/* Memory for `count` things of `bytes` each; ends the program if there is none. */
static inline void* room(size_t count, size_t bytes) {
  void* const memory = calloc(count, bytes);
  if (memory != NULL) return memory;
  fprintf(stderr, "no memory for %zu x %zu bytes\n", count, bytes);
  exit(1);
}

/* Contiguous shares of `all`: where that of `thread` of `threads` begins; it ends where the next one begins. */
static inline long share(long all, long thread, long threads) {
  return (long)((int64_t)all * thread / threads);
}

struct team {
  long threads;
  void (*work)(long thread);
  pthread_barrier_t barrier;
  double begin, end; /* of the parallel part; written by thread 0 */
};
static struct team team;

static inline void wait_for_all(void) {
  pthread_barrier_wait(&team.barrier);
}

static inline void* team_member(void* argument) {
  const long thread = *(const long*)argument;
  wait_for_all();
  if (thread == 0) team.begin = now();
  team.work(thread);
  wait_for_all();
  if (thread == 0) team.end = now();
  return NULL;
}

/* Runs work(0 .. threads - 1), work(0) in the calling thread. */
static inline void run_team(long threads, void (*work)(long)) {
  pthread_t handles[MAX_THREADS];
  long numbers[MAX_THREADS];
  team.threads = threads;
  team.work = work;
  pthread_barrier_init(&team.barrier, NULL, (unsigned)threads);
  for (long t = 0; t < threads; ++t) numbers[t] = t;
  for (long t = 1; t < threads; ++t) {
    if (pthread_create(&handles[t], NULL, team_member, &numbers[t]) != 0) {
      fprintf(stderr, "thread %ld cannot be created\n", t);
      exit(1);
    }
  }
  team_member(&numbers[0]);
  for (long t = 1; t < threads; ++t) pthread_join(handles[t], NULL);
  pthread_barrier_destroy(&team.barrier);
}

static inline int report(const char* program, uint64_t result) {
  printf("%s: %ld threads, parallel %.6f s, result %016llx\n", program, team.threads, team.end - team.begin,
         (unsigned long long)result);
  return 0;
}

#endif
