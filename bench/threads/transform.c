/* A one-dimensional complex Fourier transform in six steps: rows of a square matrix, transposed three times with barriers
 * between. All threads read all rows.
 *
 *     transform THREADS [LOG2_POINTS] */
#include <math.h>

#include "kernel.h"

struct point {
  double re, im;
};

static long side;                    /* of the matrix */
static struct point *data, *scratch; /* side x side points each */

static struct point times(struct point a, struct point b) {
  return (struct point){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static struct point root(long index, long order) {
  const double angle = -2 * M_PI * (double)index / (double)order;
  return (struct point){cos(angle), sin(angle)};
}

static void transpose(const struct point* from, struct point* to, long first, long end) {
  for (long block = 0; block < side; block += 8) {
    for (long r = first; r < end; ++r) {
      for (long c = block; c < block + 8; ++c) to[r * side + c] = from[c * side + r];
    }
  }
}

static void transform_row(struct point* row, const struct point* roots) {
  for (long i = 0, j = 0; i < side; ++i) {
    if (i < j) {
      const struct point swapped = row[i];
      row[i] = row[j];
      row[j] = swapped;
    }
    long bit = side / 2;
    while (bit > 0 && (j & bit) != 0) {
      j ^= bit;
      bit /= 2;
    }
    j |= bit;
  }
  for (long length = 2; length <= side; length *= 2) {
    for (long begin = 0; begin < side; begin += length) {
      for (long k = 0; k < length / 2; ++k) {
        const struct point a = row[begin + k],
                           b = times(row[begin + k + length / 2], roots[k * (side / length)]);
        row[begin + k] = (struct point){a.re + b.re, a.im + b.im};
        row[begin + k + length / 2] = (struct point){a.re - b.re, a.im - b.im};
      }
    }
  }
}

static void work(long thread) {
  const long first = share(side, thread, team.threads), end = share(side, thread + 1, team.threads);
  struct point* const roots = room((size_t)side / 2 + 1, sizeof *roots);
  for (long k = 0; k < side / 2; ++k) roots[k] = root(k, side);
  transpose(data, scratch, first, end);
  for (long r = first; r < end; ++r) {
    transform_row(&scratch[r * side], roots);
    for (long c = 0; c < side; ++c)
      scratch[r * side + c] = times(scratch[r * side + c], root(r * c, side * side));
  }
  wait_for_all();
  transpose(scratch, data, first, end);
  for (long r = first; r < end; ++r) transform_row(&data[r * side], roots);
  wait_for_all();
  transpose(data, scratch, first, end);
  free(roots);
}

int main(int argc, char** argv) {
  const long threads = argument(argc, argv, 1, "THREADS", 1, 1, MAX_THREADS);
  const long log_points = argument(argc, argv, 2, "LOG2_POINTS", 18, 6, 30);
  if (log_points % 2 != 0) {
    fprintf(stderr, "transform: LOG2_POINTS is %ld: an even number is needed\n", log_points);
    return 2;
  }
  side = 1L << (log_points / 2);
  data = room((size_t)(side * side), sizeof *data);
  scratch = room((size_t)(side * side), sizeof *scratch);
  for (long i = 0; i < side * side; ++i)
    data[i] = (struct point){uniform(7, (uint64_t)i), uniform(8, (uint64_t)i)};
  run_team(threads, work);
  return report("transform", hash_bytes(HASH_BEGIN, scratch, (size_t)(side * side) * sizeof *scratch));
}
