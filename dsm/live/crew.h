// The threads of a cluster's compute nodes. The initial thread, which is compute node 0, runs a function on all of
// them. Owned and called by the initial thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "dsm/live/pulse_writer.h"

namespace braid::dsm {

class Crew {
 public:
  // The first job starts the threads of compute nodes 1 .. nodes - 1. Each handles page faults on
  // a stack of its own, and is counted in `pulse` as computing while it runs a job.
  Crew(unsigned nodes, PulseWriter& pulse);
  // Ends them; none runs a job.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls job(local) on every compute node's thread, with 0 on the calling one; returns when all have returned.
  void run(const std::function<void(unsigned)>& job);
  // The same in two halves, without the calling thread: `job` must live until wait() has returned.
  void start(const std::function<void(unsigned)>& job);
  void wait();

 private:
  void start_threads();
  void serve_node(unsigned local);

  PulseWriter& pulse_;
  const unsigned nodes_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::condition_variable called_;
  std::condition_variable done_;
  const std::function<void(unsigned)>* job_ = nullptr;
  std::uint64_t round_ = 0;  // jobs so far
  unsigned running_ = 0;     // threads that have not returned from the current job
  bool dismissed_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace braid::dsm
