/* A program in C, compiled as C: every call of dsm/braid_dsm.h, on any machine. */
#include "dsm/braid_dsm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/dsm/live_c_program.h"

enum { kThings = 3000, kCounted = 100 };

struct job {
  int* things;    /* of the initial threads' allocation */
  int** own;      /* by node: memory that it allocated alone */
  unsigned wrong; /* in this cluster */
};

static void count_wrong(struct job* job, int is_wrong) {
  if (is_wrong) __atomic_fetch_add(&job->wrong, 1, __ATOMIC_RELAXED);
}

static void work(braid_node* node, void* argument) {
  struct job* const job = argument;
  const unsigned id = braid_node_id(node), count = braid_node_count(node);
  size_t first, end;
  braid_share(node, kThings, &first, &end);
  for (size_t i = first; i < end; ++i) job->things[i] = (int)i;
  int* const own = braid_allocate(sizeof(int), braid_place_cyclic());
  *own = (int)id + 1;
  job->own[id] = own;
  braid_barrier(node, 0);

  for (size_t i = 0; i < kThings; ++i) count_wrong(job, job->things[i] != (int)i);
  for (unsigned n = 0; n < count; ++n) count_wrong(job, *job->own[n] != (int)n + 1);
  count_wrong(job, braid_reduce_int64(node, -(int64_t)id, BRAID_MIN, 1) != -(int64_t)(count - 1));
  count_wrong(job, braid_reduce_uint64(node, id, BRAID_SUM, 1) != (uint64_t)count * (count - 1) / 2);
  count_wrong(job, braid_reduce_double(node, id + 0.5, BRAID_MAX, 1) != count - 0.5);

  /* Words: tickets, and a lock made of one. */
  braid_fetch_add(node, 0, 2, BRAID_RELAXED);
  while (braid_compare_exchange(node, 1, 0, 1, BRAID_ACQUIRE_RELEASE) != 0) continue;
  ++job->things[0];
  count_wrong(job, braid_exchange(node, 1, 0, BRAID_ACQUIRE_RELEASE) != 1);

  /* Objects at addresses: a turn for each node, and barriers of all and of one. */
  const int* const name = &job->things[kThings - 1];
  braid_lock_at(node, name);
  while (job->things[3] != 3 + (int)id) braid_condition_wait_at(node, name, name);
  ++job->things[3];
  count_wrong(job, braid_try_lock_at(node, name));
  braid_condition_broadcast_at(node, name);
  braid_condition_signal_at(node, name);
  braid_unlock_at(node, name);
  braid_barrier_at(node, name, count);
  braid_barrier_at(node, name - 1 - id, 1);
  if (id == 0) {
    job->things[3] = 3;
    braid_semaphore_set_at(node, name, 1);
    count_wrong(job, !braid_semaphore_try_at(node, name) || braid_semaphore_try_at(node, name));
    braid_semaphore_post_at(node, name, count);
    braid_flag_set_at(node, name);
  }
  braid_flag_wait_at(node, name);
  braid_semaphore_wait_at(node, name);
  braid_barrier_at(node, name, count);
  if (id == 0) braid_flag_clear_at(node, name);
  count_wrong(job, id == 0 && !braid_try_lock(node, 6));
  if (id == 0) braid_unlock(node, 6);

  /* A lock and a condition: nodes take their turns. */
  braid_lock(node, 5);
  while (job->things[1] != 1 + (int)id) braid_condition_wait(node, 9, 5);
  ++job->things[1];
  braid_condition_broadcast(node, 9);
  braid_unlock(node, 5);

  /* A semaphore hands the machine round; a flag says that it came back. */
  if (id == 0) braid_semaphore_post(node, 3, 1);
  braid_semaphore_wait(node, 3);
  ++job->things[2];
  if (job->things[2] == 2 + (int)count) braid_flag_set(node, 7);
  braid_semaphore_post(node, 3, 1);
  braid_flag_wait(node, 7);
  count_wrong(job, job->things[2] != 2 + (int)count);
  braid_barrier(node, 0);
  count_wrong(job, braid_load(node, 0) != 2 * (int64_t)count);
  count_wrong(job, job->things[0] != (int)count);
  braid_barrier(node, 0);
  if (id == 0) {
    braid_flag_clear(node, 7);
    braid_store(node, 0, 0, BRAID_ACQUIRE_RELEASE);
    braid_condition_signal(node, 9);

    /* 3000 and 2000 are whole pages, and parts of two; private memory is nothing to be fetched. */
    int* const seen = malloc(sizeof(int) * kThings);
    braid_prefetch(job->things, sizeof(int) * kThings);
    braid_prefetch(seen, sizeof(int) * kThings);
    braid_copy(seen, job->things, sizeof(int) * kThings);
    count_wrong(job, memcmp(seen, job->things, sizeof(int) * kThings) != 0);
    for (int i = 2; i < kThings; ++i) count_wrong(job, seen[i] != i + (i == 2) * (int)count);
    for (int i = 0; i < 900; ++i) seen[i] = -i;
    braid_copy(job->things + 2050, seen, sizeof(int) * 900);
    for (int i = 0; i < 900; ++i) count_wrong(job, job->things[2050 + i] != -i);
    braid_copy(job->things + 2050, job->things + 50, sizeof(int) * 900);
    for (int i = 0; i < 900; ++i) count_wrong(job, job->things[2050 + i] != 50 + i);
    count_wrong(job, job->things[2049] != 2049 || job->things[2950] != 2950);
    free(seen);

    int ends[2];
    count_wrong(job, pipe(ends) != 0);
    braid_prepare_read(job->things, sizeof(int) * kThings);
    count_wrong(job,
                braid_write(ends[1], job->things + 10, sizeof(int) * kCounted) != sizeof(int) * kCounted);
    braid_prepare_write(job->things, sizeof(int) * kThings);
    count_wrong(job,
                braid_read(ends[0], job->things + 1000, sizeof(int) * kCounted) != sizeof(int) * kCounted);
    count_wrong(job, memcmp(job->things + 10, job->things + 1000, sizeof(int) * kCounted) != 0);
    close(ends[0]);
    close(ends[1]);

    FILE* const file = tmpfile();
    count_wrong(job, file == NULL || braid_fwrite(job->things + 20, sizeof(int), kCounted, file) != kCounted);
    rewind(file);
    count_wrong(job, braid_fread(job->things + 2000, sizeof(int), kCounted + 1, file) != kCounted);
    count_wrong(job, memcmp(job->things + 20, job->things + 2000, sizeof(int) * kCounted) != 0);
    fclose(file);
  }
}

int braid_c_program(void) {
  struct job job = {0};
  job.things = braid_allocate(sizeof(int) * kThings, braid_place_on(braid_clusters() - 1));
  job.own = braid_allocate_array(4096, sizeof(int*), braid_place_block());
  const double begun = braid_seconds();
  braid_parallel(work, &job);
  if (braid_seconds() < begun || braid_nodes_per_cluster() == 0 || braid_page_bytes() != 4096 ||
      braid_cluster() >= braid_clusters())
    ++job.wrong;
  return braid_finish(job.wrong == 0 ? 0 : 1);
}
