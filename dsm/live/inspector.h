// Handles SIGQUIT: the process reports what its compute nodes wait for, and continues.
//
// The handler only wakes a thread, which writes the report: so the interrupted code may hold any lock. The thread
// takes the combiner lock, which is never held for long.
#pragma once

#include <semaphore.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace braid::dsm {

// Where a thread of this process is now, "search at search.c:12", or less where debugging information is missing; empty where
// the program handles or blocks SIGQUIT, which asks the thread, and for the runtime's own code. An inspector's thread only.
std::string place_of_thread(pid_t thread);

class Inspector {
 public:
  // `report` runs on the inspector's thread. If the program handles or
  // ignores SIGQUIT, that is left as it is. At most one inspector at a time.
  explicit Inspector(std::function<void()> report);
  ~Inspector();
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  // For a child of fork(), which has no such thread: resets SIGQUIT
  // to its default, so that it does not ring the parent's bell.
  void abandon_in_child() const;

 private:
  void listen();

  const std::function<void()> report_;
  sem_t bell_;
  std::atomic<bool> ending_{false};
  bool installed_ = false;
  std::thread thread_;
};

}  // namespace braid::dsm
