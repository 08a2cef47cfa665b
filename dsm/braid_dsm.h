/* The shared memory for programs in C: the calls of dsm/api.h, which explains them, one function each. */
#ifndef BRAID_DSM_H
#define BRAID_DSM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A compute node: the argument of the function that braid_parallel() runs. Used by the thread that runs it. */
typedef struct braid_node braid_node;

/* Which cluster is the home of each page of an allocation. */
typedef enum braid_placement_kind {
  BRAID_PLACE_BLOCK = 0,      /* of n clusters, the k-th n-th at cluster k */
  BRAID_PLACE_CYCLIC = 1,     /* page i at cluster i % n */
  BRAID_PLACE_ON = 2,         /* all at `cluster` */
  BRAID_PLACE_FIRST_TOUCH = 3 /* each at the cluster that accesses it first */
} braid_placement_kind;
typedef struct braid_placement {
  braid_placement_kind kind;
  unsigned cluster;
} braid_placement;

static inline braid_placement braid_place_block(void) {
  braid_placement placement = {BRAID_PLACE_BLOCK, 0};
  return placement;
}
static inline braid_placement braid_place_cyclic(void) {
  braid_placement placement = {BRAID_PLACE_CYCLIC, 0};
  return placement;
}
static inline braid_placement braid_place_first_touch(void) {
  braid_placement placement = {BRAID_PLACE_FIRST_TOUCH, 0};
  return placement;
}
static inline braid_placement braid_place_on(unsigned cluster) {
  braid_placement placement = {BRAID_PLACE_ON, cluster};
  return placement;
}

typedef enum braid_reduce { BRAID_SUM = 0, BRAID_MIN = 1, BRAID_MAX = 2 } braid_reduce;
typedef enum braid_order { BRAID_ACQUIRE_RELEASE = 0, BRAID_RELAXED = 1 } braid_order;

/* Initial thread. */
/* For programs whose main() runs once (dsm/once/main_once.h): main() begins in cluster 0 alone. This call, before
   braid_init(), clones the process for every other cluster and returns the number of the cluster in each. Only a program
   that calls it has main() once. */
unsigned braid_start_clusters(void);
void braid_init(void);
int braid_finish(int status);
void braid_parallel(void (*body)(braid_node* node, void* argument), void* argument);

unsigned braid_clusters(void);
unsigned braid_cluster(void);
unsigned braid_nodes_per_cluster(void);
size_t braid_page_bytes(void);
double braid_seconds(void);

/* All initial threads together outside braid_parallel(); any compute node alone inside. */
void* braid_allocate(size_t bytes, braid_placement placement);
/* `count` elements of `element_bytes` each; ends the program if the product exceeds size_t. */
void* braid_allocate_array(size_t count, size_t element_bytes, braid_placement placement);

/* Blocks of any size, as malloc(3) and so on, by any compute node alone inside braid_parallel(). */
void* braid_malloc(size_t bytes);
void* braid_calloc(size_t count, size_t element_bytes);
void* braid_realloc(void* memory, size_t bytes);
void braid_free(void* memory);

/* The compute node that calls, for functions that its argument is not passed to; inside braid_parallel(). */
braid_node* braid_self(void);
/* The thread of that compute node. */
unsigned braid_node_id(const braid_node* node);
unsigned braid_node_count(const braid_node* node);
unsigned braid_node_local(const braid_node* node);
/* The node's share of n things: [*first, *end). */
void braid_share(const braid_node* node, size_t n, size_t* first, size_t* end);

void braid_barrier(braid_node* node, unsigned which);
void braid_reset_figures(braid_node* node,
                         unsigned which); /* a barrier at which reports and counts begin anew */
double braid_reduce_double(braid_node* node, double value, braid_reduce how, unsigned which);
int64_t braid_reduce_int64(braid_node* node, int64_t value, braid_reduce how, unsigned which);
uint64_t braid_reduce_uint64(braid_node* node, uint64_t value, braid_reduce how, unsigned which);

void braid_lock(braid_node* node, unsigned lock);
void braid_unlock(braid_node* node, unsigned lock);
int braid_try_lock(braid_node* node, unsigned lock); /* 1: the node has it now */
void braid_condition_wait(braid_node* node, unsigned condition, unsigned lock);
void braid_condition_signal(braid_node* node, unsigned condition);
void braid_condition_broadcast(braid_node* node, unsigned condition);
void braid_flag_set(braid_node* node, unsigned flag);
void braid_flag_wait(braid_node* node, unsigned flag);
void braid_flag_clear(braid_node* node, unsigned flag);
void braid_semaphore_post(braid_node* node, unsigned semaphore, uint32_t count);
void braid_semaphore_wait(braid_node* node, unsigned semaphore);

/* The same in any number, named by addresses of shared memory, multiples of 4. Nothing is stored there. */
void braid_lock_at(braid_node* node, const void* lock);
int braid_try_lock_at(braid_node* node, const void* lock);
void braid_unlock_at(braid_node* node, const void* lock);
void braid_condition_wait_at(braid_node* node, const void* condition, const void* lock);
void braid_condition_signal_at(braid_node* node, const void* condition);
void braid_condition_broadcast_at(braid_node* node, const void* condition);
void braid_barrier_at(braid_node* node, const void* barrier, unsigned nodes); /* until so many have come */
void braid_flag_set_at(braid_node* node, const void* flag);
void braid_flag_wait_at(braid_node* node, const void* flag);
void braid_flag_clear_at(braid_node* node, const void* flag);
void braid_semaphore_set_at(braid_node* node, const void* semaphore, uint32_t value);
void braid_semaphore_post_at(braid_node* node, const void* semaphore, uint32_t count);
void braid_semaphore_wait_at(braid_node* node, const void* semaphore);
int braid_semaphore_try_at(braid_node* node,
                           const void* semaphore); /* 1: it was above 0, and is 1 less now */

int64_t braid_fetch_add(braid_node* node, unsigned word, int64_t summand, braid_order order);
int64_t braid_exchange(braid_node* node, unsigned word, int64_t value, braid_order order);
int64_t braid_compare_exchange(braid_node* node, unsigned word, int64_t expected, int64_t desired,
                               braid_order order);
int64_t braid_load(braid_node* node, unsigned word);
void braid_store(braid_node* node, unsigned word, int64_t value, braid_order order);

ssize_t braid_read(int fd, void* buffer, size_t bytes);
ssize_t braid_write(int fd, const void* buffer, size_t bytes);
size_t braid_fread(void* buffer, size_t size, size_t count, FILE* file);
size_t braid_fwrite(const void* buffer, size_t size, size_t count, FILE* file);
void braid_prepare_read(const void* memory, size_t bytes);
void braid_prepare_write(void* memory, size_t bytes);
/* Asks for pages without waiting; copies with the pages of both sides fetched ahead. */
void braid_prefetch(const void* memory, size_t bytes);
void braid_copy(void* to, const void* from, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* BRAID_DSM_H */
