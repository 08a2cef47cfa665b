// The runtime's side of a Pulse (pulse.h): counts the threads that compute and the waits that have ended. Without
// a watchdog it counts in memory of its own. Any thread; allocates nothing after map().
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/limits.h"
#include "base/result.h"
#include "dsm/live/pulse.h"
#include "dsm/live/this_thread.h"

namespace braid::dsm {

class PulseWriter {
 public:
  PulseWriter() = default;
  // Tells the watchdog that this process no longer counts: the program may run on without a limit. The memory stays
  // mapped, for the record of the process's end.
  ~PulseWriter();
  PulseWriter(const PulseWriter&) = delete;
  PulseWriter& operator=(const PulseWriter&) = delete;

  // Counts in `fd`, memory of one Pulse, instead of its own. Before anything is counted. Does not close `fd`.
  Result<void> map(int fd);
  // From now on a watchdog can trust the counts.
  void publish() { pulse_->counts.store(1); }

  // Where the process's end is recorded. Lives until the process ends, if the memory was mapped.
  EndRecord* end_record() { return pulse_ == &own_ ? nullptr : &pulse_->end; }
  // The current counts, for tests.
  const Pulse& read() const { return *pulse_; }

  // The calling thread, a compute node's, has something of the program's to run, or no longer has.
  void begin_work() {
    if (this_thread.local >= 0) threads_[static_cast<unsigned>(this_thread.local)].store(::gettid());
    begin_computing();
  }
  void end_work() {
    end_computing();
    if (this_thread.local >= 0) threads_[static_cast<unsigned>(this_thread.local)].store(0);
  }
  // The thread that has begin_work() behind it as compute node `local`; 0: none.
  pid_t thread_of(unsigned local) const { return threads_[local].load(); }
  void tell(const NodesNow& nodes) { pulse_->nodes.store(nodes.packed()); }

  // The calling thread computes, or no longer does.
  void begin_computing() {
    this_thread.counted = true;
    pulse_->busy.fetch_add(1, std::memory_order_relaxed);
  }
  void end_computing() {
    this_thread.counted = false;
    pulse_->busy.fetch_sub(1, std::memory_order_relaxed);
  }

  // The calling thread works while one lives.
  class Computing {
   public:
    explicit Computing(PulseWriter& pulse) : pulse_(pulse) { pulse_.begin_work(); }
    ~Computing() { pulse_.end_work(); }
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

   private:
    PulseWriter& pulse_;
  };

  // The calling thread waits while one lives, and does not compute meanwhile. Its end is progress.
  class Waiting {
   public:
    explicit Waiting(PulseWriter& pulse) : pulse_(pulse), computed_(this_thread.counted) {
      if (computed_) pulse_.end_computing();
    }
    ~Waiting() {
      pulse_.pulse_->progress.fetch_add(1, std::memory_order_relaxed);
      if (computed_) pulse_.begin_computing();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    PulseWriter& pulse_;
    const bool computed_;
  };

 private:
  Pulse own_;
  Pulse* pulse_ = &own_;
  std::array<std::atomic<pid_t>, kMaxComputeNodes> threads_{};
};

}  // namespace braid::dsm
