// Shared by the parts of the pthread runtime: the machine, its objects' numbers, and the threads of the program.
//
//   threads.cpp      the machine's start and end; pthread_create(), join and so on
//   mutexes.cpp      mutexes and spin locks
//   conditions.cpp   condition variables
//   objects.cpp      barriers, read-write locks, semaphores, pthread_once()
//   named_semaphores.cpp  sem_open()
//   c11.cpp          <threads.h>
//   keys.cpp         thread-specific keys
//   ends.cpp         how threads that are not the system's end
//   sleeps.cpp       nanosleep() and so on, sched_yield()
//   time.cpp         virtual time; of programs for simulation only, as
//   streams.cpp      streams of stdio that threads have opened, and those of simulated programs; with it output.cpp
//   memory.cpp       malloc() and what allocates by it, operator new
//   atomics.cpp      atomic operations, and what volatile accesses call (compiler_plugin.cpp, of the programs)
//   cancellation.cpp pthread_cancel(); of programs that call it, cancels.cpp
//   points.cpp       calls of the system that are cancellation points
//   cxx.cpp          std::thread, std::condition_variable
//   signals.cpp      handlers of signals
//   signal_waits.cpp sigwait() and so on
//   descriptors.cpp  descriptors of other clusters
//   folders.cpp      the working folder
//   processors.cpp   how many there are, and on which a thread runs
//   forks.cpp        fork() before the start
//   refused.cpp      what is refused by name
//
// Everything that these share between clusters is in `Shared`, in memory that was allocated before the machine starts.
#pragma once

#include <pthread.h>
#include <search.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/time.h"
#include "dsm/api.h"
#include "dsm/engine/types.h"
#include "dsm/program/stack_trace.h"
#include "dsm/program/volatile_accesses.h"
#include "dsm/pthreads/stacks.h"

namespace braid::dsm::pthreads {

// --- Who uses which of the machine's locks and so on

inline constexpr unsigned kGuards =
    127;  // of objects whose state is in memory: neighbours have different ones
inline constexpr unsigned kConditionGuards =
    64;  // never held while another of them is taken, but a guard may be
inline constexpr unsigned kAtomicGuards = 64;
inline constexpr unsigned kFirstGuard = kLocks - kGuards - kConditionGuards - kAtomicGuards - 3;
inline constexpr unsigned kFirstConditionGuard = kFirstGuard + kGuards;
inline constexpr unsigned kFirstAtomicGuard = kFirstConditionGuard + kConditionGuards;
inline constexpr unsigned kOutputLock = kLocks - 3;   // of output, in simulation
inline constexpr unsigned kThreadsLock = kLocks - 2;  // of Shared's table of threads
inline constexpr unsigned kNumbersLock = kLocks - 1;  // of Shared's numbers of barriers, keys and streams

inline constexpr unsigned kWaits =
    4096;  // conditions for those that wait for an object in memory, by its address
inline constexpr unsigned kFirstWait = kConditions - kWaits - 1;
inline constexpr unsigned kThreadEnds =
    kConditions - 1;  // a thread has ended; main() waits in pthread_exit()

inline constexpr unsigned kMaxThreads = 1024;  // that live or were not joined
inline constexpr unsigned kJobSemaphore =
    kMaxThreads;  // and one for each cluster, in simulation for each compute node; those before: of threads that have ended
inline constexpr unsigned kBarrierSemaphores = kJobSemaphore + std::max(kMaxClusters, kMaxThreads);
inline constexpr unsigned kMaxBarriers = 1024;
inline constexpr unsigned kReleaseWord = kWords - 1;  // always 0
static_assert(kBarrierSemaphores + 2 * kMaxBarriers <= kSemaphores && kMaxBarriers <= kReleaseWord);

// A cluster runs so many threads at once, those of the runtime among them; in simulation as many as it has compute nodes.
inline constexpr unsigned kNodes = kMaxComputeNodes;

// --- Memory that all clusters share

// A thread's scheduling policy and priority, as the program has set them. They have no effect.
struct Priority {
  int policy;  // 0: SCHED_OTHER
  int value;
};

struct Thread {  // pthread_t is its address
  void* (*function)(void*);
  void* argument;
  void* result;
  std::size_t stack_bytes;
  std::uint16_t cluster;
  std::uint16_t local;  // its compute node there
  std::uint16_t place;  // among those that compute at once, for the next thread's
  bool used;
  bool detached;
  bool done;
  bool joined;       // somebody waits for it
  sigset_t blocked;  // signals, when it begins
  sigset_t sent;     // signals to it that it has not taken yet; in simulation
  Priority priority;
  std::array<char, 16> name;
};

template <unsigned kLimit>
struct Numbers {
  std::uint32_t next;
  std::uint32_t freed_count;
  std::array<std::uint32_t, kLimit> freed;
};

struct Key {
  bool used;
  std::uint32_t generation;  // of the program's keys that had this number one after the other, from 1
  void (*destructor)(void*);
};
inline constexpr unsigned kMaxKeys = PTHREAD_KEYS_MAX;

struct NamedSemaphore;  // named_semaphores.cpp

struct Stream {  // that a thread has opened (streams.h)
  std::FILE* stream;
  std::uint16_t cluster;
};
inline constexpr unsigned kMaxStreams = 1024;

// Of threads that are created without attributes, or whose attributes say nothing of the stack: pthread_setattr_default_np().
struct DefaultAttributes {
  std::size_t stack_bytes;  // without the guard; 0: nothing was said, as of the others
  bool detached;
  bool has_mask;
  sigset_t blocked;
};

struct alignas(4096) Shared {
  // kThreadsLock
  alignas(4096) std::array<Thread, kMaxThreads> threads;
  std::array<std::bitset<kNodes>, kMaxClusters> nodes;  // that are in use
  // Threads to start, by cluster: in a live run the first job_count; in simulation that of each compute node.
  std::array<std::array<std::uint16_t, kNodes>, kMaxClusters> jobs;
  std::array<std::uint16_t, kMaxClusters> job_count;
  std::array<std::uint16_t, std::size_t{kMaxClusters} * kNodes> places;  // live threads, by place
  DefaultAttributes defaults;
  std::uint32_t live;  // threads that have not ended, without main()
  bool main_waits;
  bool ending;           // the program has called exit(), or main() has returned
  bool ended_by_thread;  // exit(0), not main()
  bool ended_at_once;    // _exit()
  // kNumbersLock
  alignas(4096) Numbers<kMaxBarriers> barriers;
  alignas(4096) std::array<Key, kMaxKeys> keys;
  std::uint32_t key_count;
  alignas(4096) std::array<Stream, kMaxStreams> streams;
  std::uint32_t stream_count;
  NamedSemaphore* named_semaphores;
  hsearch_data search_table;  // of hsearch(): the program's threads keep order
  // kThreadsLock; of pthread_cancel() (cancellation.h). By thread: what wakes it, by a lock of the machine (0: nothing was told) and
  // a condition; and who makes a call of the system for it in another cluster. By cluster: compute nodes whose threads are to leave such
  // calls.
  struct AwaitedByThread {
    std::uint32_t lock;
    std::uint32_t condition;
    const Thread* helper;
  };
  alignas(4096) std::array<AwaitedByThread, kMaxThreads> awaited;
  std::array<std::bitset<kNodes>, kMaxClusters> interrupted;
  // Threads read it without the lock, all the time; seldom written, so in pages of its own.
  alignas(4096) std::array<bool, kMaxThreads> cancelled;
};
// Made by the first call.
Shared& shared();

// --- Attributes of threads (attributes.cpp)

// The lowest bytes of a stack, beside those that a program asks for: an access there is reported.
inline constexpr std::size_t kGuardBytes = 64u << 10;
// The stack of a thread whose attributes give no size. It takes memory only as it is used, and addresses of the heap as a whole.
inline constexpr std::size_t kStackBytes = 1u << 20;

bool says_detached(const pthread_attr_t* attributes);
// None: they leave it to the thread that creates another.
std::optional<Priority> priority_of(const pthread_attr_t* attributes);
std::size_t default_stack_bytes(const DefaultAttributes& defaults);

// --- The calling thread

struct Self {
  Thread* thread = nullptr;  // nullptr: main()
  void* stack = nullptr;     // in shared memory
  // The mutexes with a lock of the machine that it has, as far as there is room for those that need not be counted.
  struct Held {
    const void* mutex = nullptr;
    unsigned count = 0;  // 0: it was destroyed by the thread that had it, and may still be unlocked
  };
  static constexpr unsigned kMaxHeld = 256;
  std::array<Held, kMaxHeld> held{};
  unsigned held_count = 0;
  std::uint32_t failed_tries = 0;  // of calls that do not wait, in sequence
  bool has_failed = false;  // the latest one, and since then it has not called another, or waited for a lock
  unsigned more_held = 0;
  bool ends = false;     // its cleanup handlers or destructors run: it is not cancelled any more
  bool in_call = false;  // of the system, which a request interrupts
  bool cancel_disabled = false;
  bool cancel_at_once = false;
};
// It needs no destructor: a thread's last calls come after those of its thread-local variables.
inline constinit thread_local Self own __attribute__((tls_model("initial-exec"))){};
Thread* current_thread();
// nullptr: no thread has this name.
Thread* thread_of(pthread_t name);

// Whether the machine was started, by the first pthread_create(). Until then main() is alone.
bool started();
// It was, or its start has begun.
bool machine_is_coming();
// The machine was started, and this is one of its processes, not a child of fork() or vfork().
bool is_run_process();
// The machine was started, and has several clusters.
bool several_clusters();
// It has several, or will have: the program was started by `braid run` or `braid sim` with several.
bool several_clusters_come();
// Those that the program sees.
unsigned processors();
// The calling compute node; the machine was started.
Node calling_node_of(const char* call);

// Host::keep_order(): before what threads of a cluster do to the same memory without a lock.
void keep_order();

// The mutexes with a lock of the machine that main() has had since before the machine was started.
std::vector<const void*>& early_locks();

// A lock of the machine while it lives; nothing before the machine is started, when nobody else is there.
class Guard {
 public:
  explicit Guard(unsigned lock);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  // Frees the lock, waits until wake() was called with the same condition, and takes it again; may return without.
  // `call`: for the message that nobody can, before the machine is started. `what`: for messages of what it waits for.
  void wait(unsigned condition, const char* call, const WaitedFor& what);
  // The same with the condition of the machine at that address.
  void wait_at(const void* condition, const char* call);
  void wake(unsigned condition);  // all that wait
  // Frees the lock for a moment, and sleeps; 0. ETIMEDOUT: `deadline` has passed already. EINVAL: is_deadline() is false.
  int sleep_before(const timespec& deadline, clockid_t clock);

 private:
  unsigned lock_;
};

// Node::semaphore_wait() of the calling compute node; `what`: for messages of what it waits for.
void wait_for_semaphore(unsigned semaphore, const char* call, const WaitedFor& what);

// An object of the program, for these messages.
inline WaitedFor object_at(WaitedFor::Kind kind, const void* object) {
  return {kind, reinterpret_cast<std::uintptr_t>(object)};
}

// Whether a call may wait until then: what is not a time, or of another clock than these two, is refused by EINVAL.
inline bool is_deadline(const timespec& deadline, clockid_t clock) {
  return deadline.tv_nsec >= 0 && deadline.tv_nsec < Duration::s(1).ns() &&
         (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME);
}
// Whether a clock of the program's choice, CLOCK_MONOTONIC or CLOCK_REALTIME, shows `deadline` or later.
bool has_come_to(clockid_t clock, const timespec& deadline);

// In virtual time threads that try in turn, with the same steps, would do so for ever. So one that has failed pauses for a while,
// each another one, before it tries again or takes a lock: when it has given up what it had.
void before_try();
// A call that does not wait has succeeded, or failed with `busy`; returns `result`.
int after_try(int result, int busy);

// Of an object in memory, by its address.
inline unsigned guard_of(const void* object) {
  return kFirstGuard + mixed(object) % kGuards;
}
inline unsigned condition_guard_of(const void* object) {
  return kFirstConditionGuard + mixed(object) % kConditionGuards;
}
inline unsigned wait_of(const void* object) {
  return kFirstWait + (mixed(object) >> 8) % kWaits;
}

// Of a number that stands in an object: it was written there, whole. Whatever else stands there most probably differs.
std::uint32_t stamp_of(const void* object, std::uint32_t number);
// The number (from 1) in the two words of an object; takes one from `numbers` if there is none yet; ~0: there are no more.
inline constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};
template <unsigned kLimit>
std::uint32_t number_in(Numbers<kLimit>& numbers, std::uint32_t* number, std::uint32_t* stamp);
// Gives it back; the object has none then.
template <unsigned kLimit>
void give_number(Numbers<kLimit>& numbers, std::uint32_t* number, std::uint32_t* stamp);
extern template std::uint32_t number_in(Numbers<kMaxBarriers>&, std::uint32_t*, std::uint32_t*);
extern template void give_number(Numbers<kMaxBarriers>&, std::uint32_t*, std::uint32_t*);

// Ends the program with a message: nobody is there who could end the wait.
[[noreturn]] void fail_alone(const char* call);
// Ends the program: this call is refused, with the place in the program that has made it.
[[noreturn]] void refuse(const char* call, const char* why);

// Whether the caller may use shared memory: not in a child of fork(), in threads of libraries, or when the machine was left.
bool can_share();

// From now on only what the program calls on its own stack is the program's.
void main_begins();

// --- fork() before the start (forks.cpp)

// A mapping with MAP_SHARED; in the heap if it is of no file.
void note_mapping(const void* memory, std::size_t bytes, bool in_heap);
void forget_mapping(const void* memory);
// Ends the program if a lock or semaphore is in memory that processes of fork() share.
void check_fork_has_not_shared(const char* call, const void* object);
// Ends the program if this process, which starts the machine, is not the run's.
void check_not_forked();
bool forked_before_start();

// Destructors of the calling thread's keys; on its stack in shared memory.
void run_key_destructors();
// What it has left to its end by std::notify_all_at_thread_exit(); on the same stack.
void notify_at_end();

// A release and an acquire: threads that call it later, in any cluster, see what this thread's cluster has written. Called by compute nodes.
void release_and_acquire();
// All other clusters are to call it soon. In a live run.
void ask_for_releases();

// --- Handlers of signals (signals.cpp)

// Until let_come() signals that the program handles wait: the machine is started. Then each cluster can have its own handlers run.
class HeldSignals {
 public:
  HeldSignals();
  // The machine was started. Once in each cluster, by the thread of main() or of its clone.
  void let_come() const;

 private:
  sigset_t before_{};
};
// Of this process: handlers that were called, or will be as soon as a thread leaves the runtime.
inline constinit volatile unsigned signals_delivered = 0;
// In a live run: starts the compute node of this cluster that runs those that interrupt the runtime; the machine was started (threads.cpp).
void start_to_serve_signals();
// What it does, on the stack in shared memory, until the process ends.
void serve_signals(void* stack, std::size_t stack_bytes);
// Whether the calling thread is this node.
bool serves_signals();
// Then: the thread whose call the signal has interrupted, and for which the handler runs.
Thread* interrupted_thread();

// --- The end of main() by pthread_exit(), and that of a thread that is not one of the system (ends.cpp)

// Calls function(argument), on the system's stack; false: pthread_exit() ended what it has called.
bool run_main_until_exit(void (*function)(void*), void* argument);
// Calls function(argument); false: exit_thread() ended it.
bool run_until_exit(void (*function)(void*), void* argument);
// On the thread's stack in shared memory: pthread_exit().
[[noreturn]] void exit_thread();
// Destructors of the calling thread's thread-local variables, if it is not one of the system; on its stack in shared memory.
void run_variable_destructors();

// The calling thread's thread-local variables, after all that may use them (thread_variables.cpp).
void free_thread_variables();

// Mutexes, for conditions.cpp: gives one up and takes it back, whatever its kind and how often the caller has it. An error
// number if the caller does not have it. Whether it is the lock of the machine at its address; otherwise its state is in memory.
bool is_lock(const pthread_mutex_t* mutex);
void release_for_wait(pthread_mutex_t* mutex, unsigned* count);
void take_after_wait(pthread_mutex_t* mutex, unsigned count);
bool is_errorcheck_and_not_held(pthread_mutex_t* mutex);
// release_for_wait() by one who has the guard of the mutex.
void release_under_guard(Guard& guard, pthread_mutex_t* mutex, unsigned* count);

// The program calls one that may give up, or not wait (tries.cpp, timed.cpp are linked): then the state of all
// mutexes, or of all conditions, is in memory.
bool uses_tries();
bool uses_timed_waits();

}  // namespace braid::dsm::pthreads
