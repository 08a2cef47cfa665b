/* Light between patches, refined where it is strong: tasks that make more tasks, in a queue for each thread, from which the
 * others steal; every patch has a lock. Energy is counted in whole units, so sums do not depend on the order.
 *
 *     patches THREADS [PATCHES [DEPTH]] */
#include <math.h>
#include <sched.h>

#include "kernel.h"

enum { NONE = -1 };

struct patch {
  pthread_mutex_t lock;
  double centre[3], size;
  long child; /* the first of four, or NONE */
  int depth;
  uint64_t energy;
};

struct task {
  long from, to;
  long next; /* in its queue, or among the free ones */
};

/* A queue, and the free tasks and patches of its thread. */
struct queue {
  pthread_mutex_t lock;
  long first, free;
  char apart[64];
};

static struct {
  pthread_mutex_t lock;
  long tasks; /* that are not done */
} open_tasks = {PTHREAD_MUTEX_INITIALIZER, 0};

static struct {
  pthread_mutex_t lock;
  long used;
} pool = {PTHREAD_MUTEX_INITIALIZER, 0};

static long patches, max_patches, max_tasks, max_depth, threads_of_run;
static struct patch* patch;
static struct task* task;
static struct queue queue[MAX_THREADS];

static void add_open(long number) {
  pthread_mutex_lock(&open_tasks.lock);
  open_tasks.tasks += number;
  pthread_mutex_unlock(&open_tasks.lock);
}

static int all_done(void) {
  pthread_mutex_lock(&open_tasks.lock);
  const int done = open_tasks.tasks == 0;
  pthread_mutex_unlock(&open_tasks.lock);
  return done;
}

static void push(long thread, long from, long to) {
  struct queue* const q = &queue[thread];
  pthread_mutex_lock(&q->lock);
  const long t = q->free;
  if (t == NONE) {
    fprintf(stderr, "patches: more than %ld tasks in a queue\n", max_tasks);
    exit(1);
  }
  q->free = task[t].next;
  task[t] = (struct task){from, to, q->first};
  q->first = t;
  pthread_mutex_unlock(&q->lock);
}

static int pop(long thread, struct task* taken) {
  struct queue* const q = &queue[thread];
  pthread_mutex_lock(&q->lock);
  const long t = q->first;
  if (t != NONE) {
    *taken = task[t];
    q->first = task[t].next;
    task[t].next = q->free;
    q->free = t;
  }
  pthread_mutex_unlock(&q->lock);
  return t != NONE;
}

/* The first of the patch's four parts, which are made by the first thread that needs them. */
static long parts(long p) {
  pthread_mutex_lock(&patch[p].lock);
  if (patch[p].child == NONE) {
    pthread_mutex_lock(&pool.lock);
    const long first = pool.used;
    pool.used += 4;
    pthread_mutex_unlock(&pool.lock);
    if (first + 4 > max_patches) {
      fprintf(stderr, "patches: more than %ld patches\n", max_patches);
      exit(1);
    }
    for (long k = 0; k < 4; ++k) {
      struct patch* const part = &patch[first + k];
      *part = patch[p];
      pthread_mutex_init(&part->lock, NULL);
      part->size = patch[p].size / 2;
      part->centre[0] += (k % 2 == 0 ? -0.25 : 0.25) * patch[p].size;
      part->centre[1] += (k < 2 ? -0.25 : 0.25) * patch[p].size;
      part->depth = patch[p].depth + 1;
      part->energy = 0;
    }
    patch[p].child = first;
  }
  const long first = patch[p].child;
  pthread_mutex_unlock(&patch[p].lock);
  return first;
}

static double form_factor(const struct patch* a, const struct patch* b) {
  double square = 0;
  for (int d = 0; d < 3; ++d) square += (a->centre[d] - b->centre[d]) * (a->centre[d] - b->centre[d]);
  double sum = 0; /* over points of the patch: the work of an interaction */
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) sum += a->size * a->size / (square + (i + j + 1) * 1e-3 * b->size);
  }
  return sum / 64;
}

static void carry_out(long thread, const struct task* t) {
  const struct patch* const from = &patch[t->from];
  const struct patch* const to = &patch[t->to];
  const double factor = form_factor(from, to);
  if (factor > 0.02 && to->depth < max_depth) {
    const long first = parts(t->to);
    add_open(4);
    for (long k = 0; k < 4; ++k) push(thread, t->from, first + k);
    return;
  }
  const uint64_t units = (uint64_t)(factor * to->size * 1e12);
  pthread_mutex_lock(&patch[t->to].lock);
  patch[t->to].energy += units;
  pthread_mutex_unlock(&patch[t->to].lock);
}

static void work(long thread) {
  const long first = share(patches, thread, team.threads), end = share(patches, thread + 1, team.threads);
  add_open((end - first) * (patches - 1));
  for (long a = first; a < end; ++a) {
    for (long b = 0; b < patches; ++b) {
      if (a != b) push(thread, b, a);
    }
  }
  wait_for_all();
  while (!all_done()) {
    struct task t;
    int found = pop(thread, &t);
    for (long k = 1; !found && k < team.threads; ++k) found = pop((thread + k) % team.threads, &t);
    if (!found) {
      sched_yield();
      continue;
    }
    carry_out(thread, &t);
    add_open(-1);
  }
}

/* A number that depends on the tree below a patch, not on the order in which it was made. */
static uint64_t sum_of(long p) {
  uint64_t sum = mix(patch[p].energy + (uint64_t)patch[p].depth);
  if (patch[p].child != NONE) {
    for (long k = 0; k < 4; ++k) sum = mix(sum * 31 + sum_of(patch[p].child + k));
  }
  return sum;
}

int main(int argc, char** argv) {
  threads_of_run = argument(argc, argv, 1, "THREADS", 1, 1, MAX_THREADS);
  patches = argument(argc, argv, 2, "PATCHES", 48, 2, 10000);
  max_depth = argument(argc, argv, 3, "DEPTH", 4, 0, 8);
  max_patches = patches;
  for (long d = 0, level = patches; d < max_depth; ++d) max_patches += level *= 4;
  max_tasks = patches * patches + 64 * patches;
  patch = room((size_t)max_patches, sizeof *patch);
  task = room((size_t)(max_tasks * threads_of_run), sizeof *task);
  for (long t = 0; t < threads_of_run; ++t) {
    pthread_mutex_init(&queue[t].lock, NULL);
    queue[t].first = NONE;
    queue[t].free = t * max_tasks;
    for (long k = 0; k < max_tasks; ++k)
      task[t * max_tasks + k].next = k + 1 < max_tasks ? t * max_tasks + k + 1 : NONE;
  }
  for (long p = 0; p < patches; ++p) {
    pthread_mutex_init(&patch[p].lock, NULL);
    for (int d = 0; d < 3; ++d) patch[p].centre[d] = uniform(5, (uint64_t)(3 * p + d));
    patch[p].size = 0.1 + 0.2 * uniform(6, (uint64_t)p);
    patch[p].child = NONE;
  }
  pool.used = patches;
  run_team(threads_of_run, work);
  uint64_t result = 0;
  for (long p = 0; p < patches; ++p) result = mix(result * 31 + sum_of(p));
  return report("patches", result);
}
