/* A tree code: bodies are inserted into an octree under the locks of its 512 upper cells, then each body is attracted by
 * the others, distant ones as cells. Many short sections under many locks, and pages that all threads read.
 *
 *     tree THREADS [BODIES [STEPS]] */
#include <math.h>

#include "kernel.h"

enum { UPPER = 8, UPPER_CELLS = UPPER * UPPER * UPPER, MAX_DEPTH = 24, EMPTY = -1 };

struct body {
  double at[3], speed[3];
};

/* A link is EMPTY, body number b as -2 - b, or the number of a cell. */
struct cell {
  long child[8];
  double centre[3], mass;
};

/* A cell of the grid that the space is divided into; the lock guards all that is below it. */
struct upper {
  pthread_mutex_t lock;
  long root;
};

struct pool {
  pthread_mutex_t lock;
  long used;
};

static long bodies, steps, max_cells;
static struct body* body;
static struct cell* cell;
static struct upper* upper;
static struct pool pool;

/* Cells for one thread, taken from the pool 64 at a time. */
struct supply {
  long next, end;
};

static long new_cell(struct supply* supply) {
  if (supply->next == supply->end) {
    pthread_mutex_lock(&pool.lock);
    supply->next = pool.used;
    pool.used = supply->end = pool.used + 64;
    pthread_mutex_unlock(&pool.lock);
    if (supply->end > max_cells) {
      fprintf(stderr, "tree: the bodies need more than %ld cells\n", max_cells);
      exit(1);
    }
  }
  for (int k = 0; k < 8; ++k) cell[supply->next].child[k] = EMPTY;
  return supply->next++;
}

/* Which eighth of the cube [low, low + size) has the body; moves `low` there. */
static int eighth(const struct body* b, double low[3], double size) {
  int which = 0;
  for (int d = 0; d < 3; ++d) {
    if (b->at[d] >= low[d] + size / 2) {
      which |= 1 << d;
      low[d] += size / 2;
    }
  }
  return which;
}

static void insert(long* link, long b, double low[3], double size, struct supply* supply) {
  for (int depth = 0; *link != EMPTY; ++depth) {
    if (*link < EMPTY) { /* a body: both go one level down */
      const long other = -2 - *link;
      if (depth == MAX_DEPTH) {
        fprintf(stderr, "tree: bodies %ld and %ld are at the same place\n", other, b);
        exit(1);
      }
      const long c = new_cell(supply);
      double corner[3] = {low[0], low[1], low[2]};
      cell[c].child[eighth(&body[other], corner, size)] = -2 - other;
      *link = c;
    }
    link = &cell[*link].child[eighth(&body[b], low, size)];
    size /= 2;
  }
  *link = -2 - b;
}

/* The sum of what is below, in the order of the links, so that it does not depend on the order of insertions. */
static void weigh(long c) {
  double mass = 0, sum[3] = {0, 0, 0};
  for (int k = 0; k < 8; ++k) {
    const long link = cell[c].child[k];
    if (link == EMPTY) continue;
    if (link >= 0) weigh(link);
    const double m = link < 0 ? 1 : cell[link].mass;
    const double* const at = link < 0 ? body[-2 - link].at : cell[link].centre;
    mass += m;
    for (int d = 0; d < 3; ++d) sum[d] += m * at[d];
  }
  cell[c].mass = mass;
  for (int d = 0; d < 3; ++d) cell[c].centre[d] = sum[d] / mass;
}

static void pull(double force[3], const double* from, const double* to, double mass) {
  double way[3], square = 1e-4;
  for (int d = 0; d < 3; ++d) {
    way[d] = to[d] - from[d];
    square += way[d] * way[d];
  }
  const double factor = mass / (square * sqrt(square));
  for (int d = 0; d < 3; ++d) force[d] += factor * way[d];
}

static void attract(double force[3], long b, long link, double size) {
  if (link == EMPTY || link == -2 - b) return;
  if (link < EMPTY) {
    pull(force, body[b].at, body[-2 - link].at, 1);
    return;
  }
  double square = 0;
  for (int d = 0; d < 3; ++d)
    square += (cell[link].centre[d] - body[b].at[d]) * (cell[link].centre[d] - body[b].at[d]);
  if (size * size < 0.64 * square) {
    pull(force, body[b].at, cell[link].centre, cell[link].mass);
    return;
  }
  for (int k = 0; k < 8; ++k) attract(force, b, cell[link].child[k], size / 2);
}

static void step(long thread) {
  const long first = share(bodies, thread, team.threads), end = share(bodies, thread + 1, team.threads);
  const long first_cell = share(UPPER_CELLS, thread, team.threads);
  const long end_cell = share(UPPER_CELLS, thread + 1, team.threads);
  struct supply supply = {0, 0};
  for (long u = first_cell; u < end_cell; ++u) upper[u].root = EMPTY;
  if (thread == 0) pool.used = 0;
  wait_for_all();
  for (long b = first; b < end; ++b) {
    double low[3];
    long number = 0;
    for (int d = 0; d < 3; ++d) {
      const double index = floor(body[b].at[d] * UPPER);
      low[d] = index / UPPER;
      number = number * UPPER + (long)index;
    }
    pthread_mutex_lock(&upper[number].lock);
    insert(&upper[number].root, b, low, 1.0 / UPPER, &supply);
    pthread_mutex_unlock(&upper[number].lock);
  }
  wait_for_all();
  for (long u = first_cell; u < end_cell; ++u) {
    if (upper[u].root >= 0) weigh(upper[u].root);
  }
  wait_for_all();
  double(*const force)[3] = room((size_t)(end - first), sizeof *force);
  for (long b = first; b < end; ++b) {
    for (long u = 0; u < UPPER_CELLS; ++u) attract(force[b - first], b, upper[u].root, 1.0 / UPPER);
  }
  wait_for_all(); /* all have read the places that change now */
  for (long b = first; b < end; ++b) {
    for (int d = 0; d < 3; ++d) {
      body[b].speed[d] += force[b - first][d] * 1e-9;
      const double at = body[b].at[d] + body[b].speed[d];
      body[b].at[d] = at - floor(at); /* what leaves on one side comes back on the other */
    }
  }
  free(force);
  wait_for_all();
}

static void work(long thread) {
  for (long s = 0; s < steps; ++s) step(thread);
}

int main(int argc, char** argv) {
  const long threads = argument(argc, argv, 1, "THREADS", 1, 1, MAX_THREADS);
  bodies = argument(argc, argv, 2, "BODIES", 8192, 2, 10000000);
  steps = argument(argc, argv, 3, "STEPS", 2, 1, 1000);
  max_cells = 2 * bodies + 64 * MAX_THREADS;
  body = room((size_t)bodies, sizeof *body);
  cell = room((size_t)max_cells, sizeof *cell);
  upper = room(UPPER_CELLS, sizeof *upper);
  pthread_mutex_init(&pool.lock, NULL);
  for (long u = 0; u < UPPER_CELLS; ++u) pthread_mutex_init(&upper[u].lock, NULL);
  for (long b = 0; b < bodies; ++b) {
    for (int d = 0; d < 3; ++d) {
      const double u = uniform(1, (uint64_t)(3 * b + d)), v = uniform(2, (uint64_t)(3 * b + d));
      body[b].at[d] = b % 2 == 0 ? u : 0.3 + 0.4 * u * v; /* half of them crowd together */
    }
  }
  run_team(threads, work);
  uint64_t result = HASH_BEGIN;
  for (long b = 0; b < bodies; ++b) result = hash_bytes(result, body[b].at, sizeof body[b].at);
  return report("tree", result);
}
