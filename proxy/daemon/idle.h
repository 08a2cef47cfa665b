// After turns without work a worker's thread spins, then yields, then sleeps. On a machine with more
// threads than cores a spinning thread keeps the one it waits for from running, so the spinning is short; where computing threads
// share the processor it does not yield either (base/crowding.h).
//
// Pure: the thread does what next() says.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/crowding.h"
#include "base/time.h"
#include "proxy/daemon/node_config.h"

namespace braid::proxy {

// Owned by the worker's thread.
class Idle {
 public:
  enum class Next : std::uint8_t {
    kSpin,
    kYield,
    kSleep,
  };

  explicit Idle(const IdleConfig& config) : config_(config), nap_(Duration::us(config.sleep_min_us)) {}

  // A turn found work. `served`: messages were moved, so more may follow soon; timers and probes alone keep no
  // thread from sleeping.
  void worked(bool served) {
    if (!served) return;
    turns_ = 0;
    waits_ = false;
    nap_ = Duration::us(config_.sleep_min_us);
  }
  // A turn found nothing to do.
  Next next() {
    if (!waits_) crowded_ = crowding_.begin_wait();
    waits_ = true;
    if (turns_ < config_.spins) {
      ++turns_;
      return Next::kSpin;
    }
    if (turns_ < config_.spins + config_.yields && !crowded_) {
      ++turns_;
      return Next::kYield;
    }
    return Next::kSleep;
  }
  // The thread has yielded, for so long.
  void yielded(Duration took) { crowded_ = crowding_.yielded(took) || crowded_; }
  // How long to sleep where nobody wakes the thread: each time longer.
  Duration next_nap() {
    const Duration nap = nap_;
    nap_ = std::min(nap_ * 2, Duration::us(config_.sleep_max_us));
    return nap;
  }

 private:
  IdleConfig config_;
  std::uint64_t turns_ = 0;  // without work, since messages were moved
  Duration nap_;
  Crowding crowding_;
  bool waits_ = false;    // next() was called since messages were moved
  bool crowded_ = false;  // this wait is
};

}  // namespace braid::proxy
