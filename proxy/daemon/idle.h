// How a worker waits after a turn without work: it spins, then yields, then sleeps ever longer. On a
// machine with more threads than cores a spinning thread keeps the one it waits for from running, so the
// spinning is short.
#pragma once

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "base/time.h"
#include "proxy/daemon/node_config.h"

namespace braid::proxy {

// Owned by the worker's thread.
class Idle {
 public:
  explicit Idle(const IdleConfig& config) : config_(config), sleep_(Duration::us(config.sleep_min_us)) {}

  void worked() {
    turns_ = 0;
    sleep_ = Duration::us(config_.sleep_min_us);
  }
  // The next idle() would begin to sleep: what was to be done later should be done now.
  bool about_to_sleep() const { return turns_ == config_.spins + config_.yields; }
  // A turn found nothing to do; nothing is due before `longest` from now. True if it slept.
  bool idle(Duration longest) {
    if (turns_ < config_.spins) {
      ++turns_;
      __builtin_ia32_pause();
      return false;
    }
    if (turns_ < config_.spins + config_.yields) {
      ++turns_;
      ::sched_yield();
      return false;
    }
    ++turns_;
    const Duration d = std::min(sleep_, longest);
    if (d <= Duration()) {
      ::sched_yield();
      return false;
    }
    const timespec t{0, d.ns()};
    ::nanosleep(&t, nullptr);
    sleep_ = std::min(sleep_ * 2, Duration::us(config_.sleep_max_us));
    return true;
  }

 private:
  IdleConfig config_;
  std::uint64_t turns_ = 0;
  Duration sleep_;
};

}  // namespace braid::proxy
