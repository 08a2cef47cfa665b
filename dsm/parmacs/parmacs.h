/* The calls behind the macros of c.m4.braid, in C. Programs write the macros: CREATE, LOCK, BARRIER and so on.

   main() runs once, in cluster 0. The first CREATE clones the process for the other clusters (dsm/once/main_once.h): all
   variables and private memory are copied then, and from then on they are private to each cluster. Only memory from
   G_MALLOC is shared. The thread that runs main() is compute node 0; functions that are CREATEd run on compute nodes 1, 2,
   ... in the order of CREATE, each as one process of the program. When main() has waited for others since, by BARRIER and so on,
   nodes of processes that have ended serve again.

   A lock, a barrier and so on in shared memory is the machine's at its address (dsm/api.h): any number, at no cost but the
   place, and a copy of one is another. One in private memory gets a name from its *INIT call, which copies keep; using one
   without ends the program with a message. Initialising one again at its place clears a pause, sets a semaphore and begins the
   subscripts again; a lock, a condition variable and a barrier stay what they are. */
#ifndef BRAID_PARMACS_H
#define BRAID_PARMACS_H

/* What the suites' own macro files bring, too. */
#include <assert.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "dsm/parmacs/types.h"

#if !defined(__cplusplus) && !defined(PAGE_SIZE)
#define PAGE_SIZE 4096
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* CREATE(function): a new process. */
void braid_parmacs_create(void (*function)(void));
/* CREATEARG(function, argument): the same, with an argument, whose address is valid in each cluster. */
void braid_parmacs_create_with(void (*function)(void*), void* argument);
/* CREATE(function, processes): processes - 1 new ones; the calling one runs the function too. */
void braid_parmacs_create_all(void (*function)(void), long processes);
/* CREATE(function, argument, processes): the same, with an argument. */
void braid_parmacs_create_all_with(void (*function)(void*), void* argument, long processes);
/* WAIT_FOR_END(processes): until so many of those that were created have ended, or all, if those are fewer. First those that were
   created since main() has waited for others. */
void braid_parmacs_wait_for_end(long processes);
/* GET_PID: the compute node; 0 for main(). */
int braid_parmacs_self(void);

/* G_MALLOC, G_FREE. Aligned to 16 bytes, zeroed; blocks of a page and more to pages. Before the first CREATE by main(),
   then by any process. A block that is freed, by any process, serves the cluster again that has allocated it; those from
   before the first CREATE stay until the program ends. */
void* braid_parmacs_allocate(size_t bytes);
void braid_parmacs_free(void* memory);

/* free() and realloc() of programs in C, of memory from G_MALLOC too, which is malloc()'s elsewhere. They get these
   names when they are linked, so pointers to them are right, and members or variables with their names stay what they are. */
void braid_parmacs_free_any(void* memory);
void* braid_parmacs_reallocate_any(void* memory, size_t bytes);
#if !defined(__cplusplus) && !defined(free) && !defined(realloc)
extern void free(void* memory) __asm__("braid_parmacs_free_any");
extern void* realloc(void* memory, size_t bytes) __asm__("braid_parmacs_reallocate_any");
#endif

void braid_parmacs_lock_init(braid_parmacs_lock* lock);
void braid_parmacs_lock_inits(braid_parmacs_lock* locks, long count);
void braid_parmacs_lock_acquire(const braid_parmacs_lock* lock);
void braid_parmacs_lock_release(const braid_parmacs_lock* lock);

/* Until `processes` have come; of wait_for_all(), as many as init_for() says. */
void braid_parmacs_barrier_init(braid_parmacs_barrier* barrier);
void braid_parmacs_barrier_init_for(braid_parmacs_barrier* barrier, long processes);
void braid_parmacs_barrier_wait(const braid_parmacs_barrier* barrier, long processes);
void braid_parmacs_barrier_wait_for_all(const braid_parmacs_barrier* barrier);

/* A barrier at which the figures of the run begin anew. */
void braid_parmacs_reset_figures(const braid_parmacs_barrier* barrier, long processes);

/* A flag: set, cleared, waited for until it is set. */
void braid_parmacs_pause_init(braid_parmacs_pause* pause);
void braid_parmacs_pause_inits(braid_parmacs_pause* pauses, long count);
void braid_parmacs_pause_set(const braid_parmacs_pause* pause);
void braid_parmacs_pause_clear(const braid_parmacs_pause* pause);
void braid_parmacs_pause_wait(const braid_parmacs_pause* pause);

/* The same in a variable of the program, in shared memory: set while its first byte is not 0. The page goes to all that wait
   for it, so a flag costs more. */
void braid_parmacs_variable_init(volatile void* variable);
void braid_parmacs_variable_set(volatile void* variable);
void braid_parmacs_variable_clear(volatile void* variable);
void braid_parmacs_variable_wait(const volatile void* variable);
#ifdef __cplusplus
#define BRAID_PARMACS_PAUSE(call, pause) braid_parmacs_pause_##call(&(pause))
#else
#define BRAID_PARMACS_PAUSE(call, pause)                  \
  _Generic((pause), char                                  \
           : braid_parmacs_variable_##call, signed char   \
           : braid_parmacs_variable_##call, unsigned char \
           : braid_parmacs_variable_##call, int           \
           : braid_parmacs_variable_##call, unsigned      \
           : braid_parmacs_variable_##call, long          \
           : braid_parmacs_variable_##call, unsigned long \
           : braid_parmacs_variable_##call, default       \
           : braid_parmacs_pause_##call)(&(pause))
#endif

void braid_parmacs_semaphore_init(braid_parmacs_semaphore* semaphore, long value);
void braid_parmacs_semaphore_post(const braid_parmacs_semaphore* semaphore);
void braid_parmacs_semaphore_wait(const braid_parmacs_semaphore* semaphore);

void braid_parmacs_condition_init(braid_parmacs_condition* condition);
void braid_parmacs_condition_wait(const braid_parmacs_condition* condition, const braid_parmacs_lock* lock);
void braid_parmacs_condition_signal(const braid_parmacs_condition* condition);
void braid_parmacs_condition_broadcast(const braid_parmacs_condition* condition);

/* GETSUB: the next of the subscripts 0 .. last, each to one caller. When there are none, -1 to each of `processes`
   callers, which wait for each other; then the subscripts begin again. */
void braid_parmacs_subscripts_init(braid_parmacs_subscripts* subscripts);
long braid_parmacs_next_subscript(const braid_parmacs_subscripts* subscripts, long last, long processes);

/* CLOCK: microseconds since an unspecified moment. */
unsigned long braid_parmacs_clock(void);

/* sleep(), sched_yield() and so on: the process finds what others have released by then. They get these names when they are linked. */
int braid_parmacs_nanosleep(const struct timespec* time, struct timespec* rest);
int braid_parmacs_usleep(unsigned us);
unsigned braid_parmacs_sleep(unsigned seconds);
int braid_parmacs_sched_yield(void);
int braid_parmacs_select(int count, fd_set* reads, fd_set* writes, fd_set* exceptions,
                         struct timeval* timeout);
#ifndef BRAID_PARMACS_RUNTIME
#pragma redefine_extname nanosleep braid_parmacs_nanosleep
#pragma redefine_extname usleep braid_parmacs_usleep
#pragma redefine_extname sleep braid_parmacs_sleep
#pragma redefine_extname sched_yield braid_parmacs_sched_yield
#pragma redefine_extname select braid_parmacs_select
#endif

#ifdef __cplusplus
}
#endif

#endif
