// A program whose own threads are what compute nodes run (dsm/pthreads): each node has thread-local variables and a stack for
// signals of its own, and its code may run on a stack in shared memory.
#pragma once

namespace braid::sim {

// Set before init().
extern bool has_own_threads;

}  // namespace braid::sim
