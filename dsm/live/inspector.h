// Handles SIGQUIT: the process reports what its compute nodes wait for, and continues.
//
// The handler only wakes a thread, which writes the report: so the interrupted code may hold any lock. The thread
// takes the combiner lock, which is never held for long.
#pragma once

#include <functional>
#include <thread>

namespace braid::dsm {

class Inspector {
 public:
  // `report` runs on the inspector's thread. A program that has a handler for SIGQUIT, or ignores it, keeps
  // that. One at a time.
  explicit Inspector(std::function<void()> report);
  ~Inspector();
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  // In a child of fork(), which has no such thread: SIGQUIT has its default again, and reaches no bell of the
  // parent's.
  void abandon_in_child() const;

 private:
  void listen();

  const std::function<void()> report_;
  int bell_ = -1;
  bool installed_ = false;
  std::thread thread_;
};

}  // namespace braid::dsm
