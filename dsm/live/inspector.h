// Answers SIGQUIT: the process says what its compute nodes wait for, and goes on.
//
// The handler only rings; a thread of its own speaks, so whatever was interrupted may hold any lock but the
// runtime's combiner lock, which nobody holds for long.
#pragma once

#include <functional>
#include <thread>

namespace braid::dsm {

class Inspector {
 public:
  // `speak` runs on the inspector's thread. A program that has a handler for SIGQUIT, or ignores it, keeps
  // that. One at a time.
  explicit Inspector(std::function<void()> speak);
  ~Inspector();
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

 private:
  void listen();

  const std::function<void()> speak_;
  int bell_ = -1;
  bool installed_ = false;
  std::thread thread_;
};

}  // namespace braid::dsm
