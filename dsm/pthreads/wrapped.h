// The names by which the program's calls come here. The linker gives __wrap_f to the program's own objects where they call
// f, for each f of wrapped.txt; libraries and the runtime get f itself.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

#define WRAPPED(name) __wrap_##name

// What files that are linked only if the program calls it (tries.cpp, timed.cpp, new.cpp) call.
extern "C" {
int braid_pthreads_mutex_trylock(pthread_mutex_t* mutex);
int braid_pthreads_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until);
int braid_pthreads_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until);
int braid_pthreads_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const timespec* until);
// nullptr: no memory.
void* braid_pthreads_new(std::size_t bytes, std::size_t alignment);
void braid_pthreads_delete(void* memory);
int braid_pthreads_guard_acquire(std::uint64_t* guard);
void braid_pthreads_guard_release(std::uint64_t* guard);
void braid_pthreads_guard_abort(std::uint64_t* guard);
}
