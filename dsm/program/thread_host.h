// What the runtime of pthread programs (dsm/pthreads) needs of a host beside dsm/program/host.h. Defined by the library of the
// host that the program is linked with: dsm/live/thread_host.cpp, sim/shell/thread_host.cpp.
//
//              a thread of the program is                        who starts it
//   live       a thread of the system that becomes a             Host::start_node()
//              compute node
//   simulated  what a compute node runs, on its fibre            the node itself, which waits for threads
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace braid::dsm {

// The lowest bytes of the calling thread's stack in shared memory, which nobody may use (Host::check_stack()). Volatile: a
// handler of faults reads it. Initial-exec: reading it there allocates nothing and calls nothing.
struct StackGuard {
  std::uintptr_t low = 0;
  std::size_t bytes = 0;
};
inline constinit thread_local volatile StackGuard stack_guard __attribute__((tls_model("initial-exec"))){};

namespace thread_host {

struct Machine {
  unsigned clusters = 1;
  unsigned computing = 1;  // threads of a cluster that compute at once: where new threads are placed
  unsigned nodes =
      1;  // compute nodes of a cluster: the threads that it can have, main() and the runtime's own among them
};
// Of the run that the program is part of; also before init(). Ends the process with a message if there is none.
Machine machine();
// True: Host::start_node() starts threads. False: Host::begin_parallel() needs a body, which waits for threads on each node.
bool starts_threads();

// init(), after start_clusters().
void join();
// The calling thread's code runs on the stack of `bytes` bytes at `low`, in shared memory, and has left its own at `top`.
void use_stack(std::uintptr_t low, std::size_t bytes, std::uintptr_t top);

// --- Where starts_threads() is false

// The calling node's thread-local variables begin anew: another thread comes. Destructors are not called.
void renew_thread_variables();
// main() has ended: so has the run, whatever other threads do. The caller ends the process. Compute node 0 of cluster 0.
void leave();

// --- Time, as the program's threads see it

// CLOCK_MONOTONIC and CLOCK_REALTIME.
Instant monotonic();
Duration unix_time();
void sleep(Duration time);

}  // namespace thread_host

}  // namespace braid::dsm
