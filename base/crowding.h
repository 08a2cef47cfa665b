// Whether threads that compute share the processor of one that waits. A thread that yields to a computing one gets the
// processor back at a tick of the clock, milliseconds later, misses what arrives meanwhile, and has had its share when it is needed;
// one that sleeps is woken in the middle of the other's slice. So after a yield that took long it sleeps at once in the
// next waits, before it tries to yield again.
//
// Pure; owned by the waiting thread.
#pragma once

#include "base/time.h"

namespace braid {

class Crowding {
 public:
  // As long as the turns that a program's threads ask for. 100 us made runs slower where the kernel's work takes long
  // (docs/decisions/0045).
  static constexpr Duration kLongYield = 500_us;
  static constexpr int kCrowdedWaits = 32;

  // A wait begins. True: it should not yield.
  bool begin_wait() {
    if (waits_ == 0) return false;
    --waits_;
    return true;
  }
  // A yield is over. True: it took long.
  bool yielded(Duration took) {
    if (took <= kLongYield) return false;
    waits_ = kCrowdedWaits;
    return true;
  }

 private:
  int waits_ = 0;  // the number of further ones that should not yield
};

}  // namespace braid
