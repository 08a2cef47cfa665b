// The names by which the program's calls come here. The linker gives __wrap_f to the program's own objects where they call
// f, for each f of wrapped.txt; libraries and the runtime get f itself.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

#define WRAPPED(name) __wrap_##name

// What other calls are made of.
extern "C" {
int WRAPPED(pthread_create)(pthread_t* name, const pthread_attr_t* attributes, void* (*function)(void*),
                            void* argument);
int WRAPPED(pthread_join)(pthread_t name, void** result);
int WRAPPED(pthread_detach)(pthread_t name);
[[noreturn]] void WRAPPED(pthread_exit)(void* result);
pthread_t WRAPPED(pthread_self)();
int WRAPPED(pthread_mutex_init)(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes);
int WRAPPED(pthread_mutex_lock)(pthread_mutex_t* mutex);
int WRAPPED(pthread_mutex_unlock)(pthread_mutex_t* mutex);
int WRAPPED(pthread_cond_init)(pthread_cond_t* condition, const pthread_condattr_t* attributes);
int WRAPPED(pthread_cond_destroy)(pthread_cond_t* condition);
int WRAPPED(pthread_cond_wait)(pthread_cond_t* condition, pthread_mutex_t* mutex);
int WRAPPED(pthread_cond_signal)(pthread_cond_t* condition);
int WRAPPED(pthread_cond_broadcast)(pthread_cond_t* condition);
int WRAPPED(pthread_once)(pthread_once_t* once, void (*function)());
int WRAPPED(pthread_key_create)(pthread_key_t* key, void (*destructor)(void*));
int WRAPPED(pthread_key_delete)(pthread_key_t key);
int WRAPPED(pthread_setspecific)(pthread_key_t key, const void* value);
void* WRAPPED(pthread_getspecific)(pthread_key_t key);
int WRAPPED(sem_init)(sem_t* semaphore, int across_processes, unsigned value);
void* WRAPPED(malloc)(std::size_t bytes);
void* WRAPPED(calloc)(std::size_t count, std::size_t element_bytes);
void* WRAPPED(realloc)(void* memory, std::size_t bytes);
void* WRAPPED(aligned_alloc)(std::size_t alignment, std::size_t bytes);
void WRAPPED(free)(void* memory);
}

// What files that are linked only if the program calls it (tries.cpp, timed.cpp, cancels.cpp, new.cpp) call.
extern "C" {
int braid_pthreads_cancel(pthread_t name);
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
