// The common parts of benchmarks between two processes: shared memory, a core for each, medians.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "base/check.h"

namespace braid::bench {

// In memory that processes forked later share with this one. Never freed.
template <class T>
T* shared(std::size_t count = 1) {
  void* const memory =
      ::mmap(nullptr, sizeof(T) * count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  T* const first = static_cast<T*>(memory);
  for (std::size_t i = 0; i < count; ++i) new (first + i) T;
  return first;
}

inline void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu) % std::max(1u, std::thread::hardware_concurrency()), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

// Runs `body` in a process on core `cpu`, which dies with this one. It is there from the start: on this one's
// core it might never be scheduled.
inline pid_t spawn(int cpu, const std::function<void()>& body) {
  const pid_t parent = ::getpid();
  pin(cpu);
  const pid_t pid = ::fork();
  CHECK_GE(pid, 0);
  if (pid != 0) {
    pin(0);
    return pid;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  body();
  ::_exit(0);
}

// Ends processes of spawn(), and waits for them.
inline void end(const std::vector<pid_t>& processes, int signal) {
  for (const pid_t pid : processes) {
    ::kill(pid, signal);
    ::waitpid(pid, nullptr, 0);
  }
}

inline double median(std::vector<double> v) {
  CHECK(!v.empty());
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

}  // namespace braid::bench
