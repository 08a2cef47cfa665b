/* Red and black points of a grid are relaxed in turns, until the sum of the changes, which threads add up under a lock, is
 * small. Neighbouring threads read each other's border rows.
 *
 *     grid THREADS [SIZE [MAX_SWEEPS]] */
#include <math.h>

#include "kernel.h"

static long size, max_sweeps;
static double* at;  /* (size + 2) x (size + 2) */
static long sweeps; /* written by thread 0 */

static struct {
  pthread_mutex_t lock;
  uint64_t units[2]; /* of this sweep and the next one; whole numbers, so that their order does not count */
} change = {PTHREAD_MUTEX_INITIALIZER, {0, 0}};

static uint64_t relax(long first, long end, long colour) {
  const long row = size + 2;
  double sum = 0;
  uint64_t units = 0;
  for (long r = first; r < end; ++r) {
    for (long c = 1 + (r + colour) % 2; c <= size; c += 2) {
      double* const p = &at[r * row + c];
      const double relaxed = 0.25 * (p[-1] + p[1] + p[-row] + p[row]);
      sum += fabs(relaxed - *p);
      *p = relaxed;
    }
    units += (uint64_t)(sum * 1e6); /* row by row, so that the number of threads does not count either */
    sum = 0;
  }
  return units;
}

static void work(long thread) {
  const long first = 1 + share(size, thread, team.threads), end = 1 + share(size, thread + 1, team.threads);
  for (long s = 0; s < max_sweeps; ++s) {
    uint64_t mine = relax(first, end, 0);
    wait_for_all();
    mine += relax(first, end, 1);
    pthread_mutex_lock(&change.lock);
    change.units[s % 2] += mine;
    pthread_mutex_unlock(&change.lock);
    wait_for_all();
    const uint64_t all = change.units[s % 2];
    if (thread == 0) {
      sweeps = s + 1;
      change.units[(s + 1) % 2] = 0;
    }
    if (all < (uint64_t)(size * size)) break;
    wait_for_all();
  }
}

int main(int argc, char** argv) {
  const long threads = argument(argc, argv, 1, "THREADS", 1, 1, MAX_THREADS);
  size = argument(argc, argv, 2, "SIZE", 512, 1, 30000);
  max_sweeps = argument(argc, argv, 3, "MAX_SWEEPS", 100, 1, 1000000);
  at = room((size_t)((size + 2) * (size + 2)), sizeof *at);
  for (long i = 0; i < size + 2; ++i) at[i] = 100;
  for (long i = 0; i < (size + 2) * (size + 2); ++i) at[i] += uniform(11, (uint64_t)i);
  run_team(threads, work);
  uint64_t result = hash_bytes(HASH_BEGIN, at, (size_t)((size + 2) * (size + 2)) * sizeof *at);
  return report("grid", hash_bytes(result, &sweeps, sizeof sweeps));
}
