/* A dense matrix is factored into triangles, without pivots, block by block: the thread that owns a block updates it, with
 * barriers between the steps. Blocks are contiguous, so each is written by one thread only.
 *
 *     factor THREADS [SIZE] */
#include "kernel.h"

enum { BLOCK = 16 };

static long across;    /* blocks in a row */
static double* blocks; /* row by row, each BLOCK x BLOCK numbers */

static double* block_at(long row, long column) {
  return &blocks[(row * across + column) * BLOCK * BLOCK];
}

static long owner(long row, long column) {
  return (row + column * 3) % team.threads;
}

static void factor_diagonal(double* a) {
  for (long k = 0; k < BLOCK; ++k) {
    for (long i = k + 1; i < BLOCK; ++i) {
      a[i * BLOCK + k] /= a[k * BLOCK + k];
      for (long j = k + 1; j < BLOCK; ++j) a[i * BLOCK + j] -= a[i * BLOCK + k] * a[k * BLOCK + j];
    }
  }
}

/* Right of the diagonal: the lower triangle of `d` is applied. */
static void update_row(const double* d, double* a) {
  for (long k = 0; k < BLOCK; ++k) {
    for (long i = k + 1; i < BLOCK; ++i) {
      for (long j = 0; j < BLOCK; ++j) a[i * BLOCK + j] -= d[i * BLOCK + k] * a[k * BLOCK + j];
    }
  }
}

/* Below the diagonal: the upper triangle of `d` is applied. */
static void update_column(const double* d, double* a) {
  for (long i = 0; i < BLOCK; ++i) {
    for (long k = 0; k < BLOCK; ++k) {
      a[i * BLOCK + k] /= d[k * BLOCK + k];
      for (long j = k + 1; j < BLOCK; ++j) a[i * BLOCK + j] -= a[i * BLOCK + k] * d[k * BLOCK + j];
    }
  }
}

static void update_rest(const double* left, const double* above, double* a) {
  for (long i = 0; i < BLOCK; ++i) {
    for (long k = 0; k < BLOCK; ++k) {
      const double factor = left[i * BLOCK + k];
      for (long j = 0; j < BLOCK; ++j) a[i * BLOCK + j] -= factor * above[k * BLOCK + j];
    }
  }
}

static void work(long thread) {
  for (long k = 0; k < across; ++k) {
    if (owner(k, k) == thread) factor_diagonal(block_at(k, k));
    wait_for_all();
    for (long m = k + 1; m < across; ++m) {
      if (owner(k, m) == thread) update_row(block_at(k, k), block_at(k, m));
      if (owner(m, k) == thread) update_column(block_at(k, k), block_at(m, k));
    }
    wait_for_all();
    for (long i = k + 1; i < across; ++i) {
      for (long j = k + 1; j < across; ++j) {
        if (owner(i, j) == thread) update_rest(block_at(i, k), block_at(k, j), block_at(i, j));
      }
    }
    wait_for_all();
  }
}

int main(int argc, char** argv) {
  const long threads = argument(argc, argv, 1, "THREADS", 1, 1, MAX_THREADS);
  const long size = argument(argc, argv, 2, "SIZE", 512, BLOCK, 16384) / BLOCK * BLOCK;
  across = size / BLOCK;
  blocks = room((size_t)(size * size), sizeof *blocks);
  for (long i = 0; i < size * size; ++i) blocks[i] = uniform(9, (uint64_t)i) - 0.5;
  for (long k = 0; k < across; ++k) {
    for (long i = 0; i < BLOCK; ++i) block_at(k, k)[i * BLOCK + i] += (double)size;
  }
  run_team(threads, work);
  return report("factor", hash_bytes(HASH_BEGIN, blocks, (size_t)(size * size) * sizeof *blocks));
}
