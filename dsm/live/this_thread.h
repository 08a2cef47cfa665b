// The calling thread's role: which compute node it is, and whether the runtime's own code runs.
#pragma once

namespace braid::dsm {

struct ThreadState {
  int local = -1;        // the compute node of the cluster that the thread is; -1: none
  bool inside = false;   // the runtime's code is running: shared memory must not be accessed
  bool counted = false;  // among those that compute (pulse_writer.h)
};
// Initial-exec and constinit: reading it inside a fault allocates nothing and calls nothing. Volatile: a signal
// handler reads it.
inline constinit thread_local volatile ThreadState this_thread __attribute__((tls_model("initial-exec"))){};

// While one lives, the runtime's code runs on its thread. They do not nest.
class Inside {
 public:
  Inside() { this_thread.inside = true; }
  ~Inside() { this_thread.inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace braid::dsm
